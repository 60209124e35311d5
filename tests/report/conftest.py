import signal

import cv2
import numpy as np
import pytest

from tests.report.reading import Page
from tffapps.report.__main__ import main

CLAIMS = """claim,metric,method,baseline,role,method_score,method_low,method_high,baseline_score,baseline_low,\
baseline_high,gain,gain_low,gain_high,p,test,images,subjects,splits,seeds,p_holm,verdict,data,profile
macro F1,macro_f1,fnst S5C5,fedavg,baseline,0.5,0.45,0.55,0.25,0.2,0.3,0.25,0.2,0.3,0.0005,swap by subject,120,60,1,\
0 1 2,0.0015,ahead,stand-in,demo
macro F1,macro_f1,fnst S5C5,repeated,control,0.5,0.45,0.55,0.51,0.46,0.56,-0.01,-0.06,0.04,0.7,swap by subject,120,60,\
1,0 1 2,0.7,level,stand-in,demo
macro F1,macro_f1,fnst S5C5,elsewhere,baseline,0.5,,,0.4,,,,,,,no images in common,120,60,1,0 1 2,,not comparable,\
stand-in,demo
"""
FNST = """method,rare,augmentation,made,macro_f1,macro_f1_low,macro_f1_high,macro_f1_std,images,subjects,splits,seeds,\
data,profile,weights
fnst,5,S5C5,300,0.6,0.55,0.65,0.02,120,60,1,0 1 2,stand-in,demo,random
repeated,5,S5C5,300,0.51,0.46,0.56,0.03,120,60,1,0 1 2,stand-in,demo,random
"""
STYLES = """method,artists,rounds,bytes_per_client,accuracy,accuracy_std,seeds,paper_accuracy,data,profile,weights
local,8,8,0,0.453,0.055,0 1 2,0.6724,<art>,demo,imagenet
fedavg,8,8,1230000,0.446,0.057,0 1 2,0.6807,<art>,demo,imagenet
fedstyle,8,8,2460000,0.6444,0.049,0 1 2,0.7512,<art>,demo,imagenet
"""


@pytest.fixture
def results(tmp_path):
    """FNST on a stand-in, with a figure; FedStyle on real images; nothing of the others."""
    folder = tmp_path / "results"
    write(folder / "fnst" / "table3_fnst.csv", FNST)
    write(folder / "fnst" / "claims.csv", CLAIMS)
    write(folder / "fnst" / "rejected.csv", "path,client,reason\n")
    write(folder / "real" / "fedstyle" / "comparison.csv", STYLES)
    draw(folder / "fnst" / "styled.png")
    return folder


@pytest.fixture
def made():
    """Runs the command on a folder and gives the page; the command sets a signal handler, which is put back."""
    handler = signal.getsignal(signal.SIGTERM)

    def make(folder, *flags) -> Page:
        assert main(["--results", str(folder), *flags]) == 0
        page = Page((folder / "index.html").read_text())
        page.check_alone()
        return page

    yield make
    signal.signal(signal.SIGTERM, handler)


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def draw(path, height=20, width=30, noise=False):
    path.parent.mkdir(parents=True, exist_ok=True)
    image = np.random.default_rng(0).integers(0, 255, (height, width, 3)) if noise else np.full((height, width, 3), 200)
    cv2.imwrite(str(path), image.astype(np.uint8))
