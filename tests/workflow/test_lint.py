"""Every rule that runs a command writes its log."""

import re

from helpers.tiny_workspace import ROOT


def test_every_rule_that_runs_a_command_writes_its_log():
    rules = "".join(path.read_text() for path in sorted((ROOT / "workflow" / "rules").glob("*.smk")))
    commands = re.findall(r'"\{(?:DETECTOR_)?RECAP\}(.*)', rules)
    assert len(commands) > 15
    assert all(command.startswith(" --log-file {log:q}") for command in commands)
