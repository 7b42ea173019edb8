"""Translation language modelling (TLM; Lample & Conneau 2019), as VECO adds it on translations.

A sentence and its translation are one sequence, `<s> x </s> y </s>`, and masked together; the model
is the plain encoder. Positions go on over the second sentence and there are no language embeddings
(the convention of XLM-R's family).

VECO names the objective and nothing of this; the mask is drawn independently of that of `ca_mlm`.
"""

from __future__ import annotations

from lingraft.training.objectives import mlm
from lingraft.training.objectives.common import of_one_term

TLM = of_one_term(
    "tlm",
    summary="masked words of a sentence and its translation in one sequence",
    paper="XLM (Lample & Conneau 2019), §3.4; in VECO (Luo et al. 2021), §4",
    corrupt=mlm.corrupt,
    reads="joined pairs",
)
