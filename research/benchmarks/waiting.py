"""Steps a second of a small training loop on two threads, to compare how OpenMP's threads wait.

python research/benchmarks/waiting.py 6
OMP_WAIT_POLICY=PASSIVE python research/benchmarks/waiting.py 6
"""

import os
import sys
import time

import torch

torch.set_num_threads(2)
torch.manual_seed(0)
layers = torch.nn.Sequential(
    *(
        layer
        for _ in range(6)
        for layer in (torch.nn.Linear(256, 1024), torch.nn.GELU(), torch.nn.Linear(1024, 256))
    )
)
optimizer = torch.optim.AdamW(layers.parameters(), 1e-4)
rows_ND = torch.randn(2048, 256)


def step() -> None:
    """Forward, backward, optimizer."""
    layers(rows_ND).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()


for _ in range(2):
    step()
begun, used, steps = time.monotonic(), time.process_time(), 0
while time.monotonic() - begun < float(sys.argv[1]):
    step()
    steps += 1
wall, processor = time.monotonic() - begun, time.process_time() - used
print(
    f"{steps / wall:.2f} steps/s, {steps / processor:.2f} a CPU-second, "
    f"load average {os.getloadavg()[0]:.1f}"
)
