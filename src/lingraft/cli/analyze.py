"""`lingraft analyze retrieval` and `alignment`: what a model knows of translations."""

from __future__ import annotations

from lingraft.cli import alignment, retrieval
from lingraft.cli import options as ask

command = ask.group("Compare languages inside a model: find translations, link words.")
command.command("retrieval")(retrieval.command)
command.command("alignment")(alignment.command)
