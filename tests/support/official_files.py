"""Tasks of which tests/tasks/official has five rows of each official format."""

from lingraft.tasks import GROUPS, TASKS

IN_ONE_LANGUAGE = {"udpos-fr", "panx-de"}
IN_TWO = {"pawsx": "ko en", "xnli": "de en", "xquad": "de en", "mlqa": "de en", "tydiqa": "ko en"}
GROUPED = {GROUPS[name].member(one) for name in GROUPS for one in GROUPS[name].languages}
FILES = IN_ONE_LANGUAGE | {f"{group}-{one}" for group in IN_TWO for one in IN_TWO[group].split()}
HERE = [name for name in TASKS if name not in GROUPED or name in FILES]
