"""What ``make`` does with its variables, shown by ``--dry-run``."""

import os
import subprocess

from helpers.tiny_workspace import ROOT


def make(*words):
    command = ["make", "--dry-run", "--old-file", ".venv/.installed", *words]
    # Where another make started the tests, its variables would make this one speak of folders.
    environment = {
        name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL")
    }
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)


def test_a_misspelt_profile_is_one_sentence_with_those_that_there_are():
    done = make("run", "PROFILE=iu_xra")
    assert done.returncode == 2 and done.stdout == "" and done.stderr.count("\n") == 1
    assert (
        "there is no profile 'iu_xra'; known are: demo " in done.stderr
        and " titles" not in done.stderr
    )
    done = make("run", "PROFILE=iu_xray")
    assert done.returncode == 0 and '--configfile "params/iu_xray.yaml"' in done.stdout


def test_a_paper_is_run_at_a_scale_and_its_reports_are_shown():
    done = make("run", "PAPER=xlan", "SCALE=photos", "INPUTS=there")
    assert (
        '--configfile "params/xlan/profile.yaml" --config scale=photos "inputs=$INPUTS"'
        in done.stdout
    )
    assert "recap report show reports/xlan_photos" in done.stdout
    assert (
        "recap artifacts clean 'xlan_photos'" in make("clean", "PAPER=xlan", "SCALE=photos").stdout
    )
    done = make("repro", "PAPER=xlan", "SCALE=photos", "INPUTS=there", "FETCH=yes")
    assert (
        'artifacts add "params/xlan/profile.yaml" --scale photos --inputs "$INPUTS"' in done.stdout
    )
    assert "--fetch" in done.stdout and "--conda" not in done.stdout
    assert "dvc repro 'report@xlan_photos'" in done.stdout
    done = make("run", "PAPER=xlam", "SCALE=photos")
    assert (
        done.returncode == 2 and "there is no paper 'xlam'; known are: acf fusion " in done.stderr
    )
