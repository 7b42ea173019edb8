"""Fine-tuning of a stock checkpoint on the tasks of `lingraft.tasks`, over seeds."""
