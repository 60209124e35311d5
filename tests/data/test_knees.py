import cv2
import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score

from tffapps.data import knees, oai, standin
from tffapps.errors import UserError

UPRIGHT = np.array([[knees.SIZE, 0, knees.SIZE / 2], [0, knees.SIZE, knees.SIZE / 2]], float)
IMAGES = 240


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return knees.write_knees(tmp_path_factory.mktemp("knees") / "k", images=IMAGES, progress=False)


@pytest.fixture(scope="module")
def table(folder):
    return oai.read_oai(folder)


@pytest.fixture(scope="module")
def pixels(table):
    return np.stack([cv2.imread(path, cv2.IMREAD_UNCHANGED) for path in table.path])


def spaces(grade, side="R", count=60):
    """The joint space beside each condyle, in pixels of the drawn masks: (knees, left and right)."""
    found = []
    for number in range(count):
        knee = knees.anatomy(np.random.default_rng([number, grade]), np.random.default_rng(number), grade, side)
        femur, tibia, _ = (mask > 127 for mask in knees.bones(knee, UPRIGHT))
        free = tibia.argmax(axis=0) - (knees.SIZE - femur[::-1].argmax(axis=0))  # rows between, by column
        beside = np.arange(40, 75)
        found.append([free[beside].mean(), free[knees.SIZE - 1 - beside].mean()])
    return np.maximum(found, 0)


def test_the_real_loader_reads_it_back(folder, table):
    assert standin.is_standin(folder)
    assert len(table) == IMAGES
    counts = table.label.value_counts()
    assert (counts["healthy"], counts["moderate"], counts["severe"]) == (165, 58, 17)
    assert set(table.split) == {"train", "val", "test"}
    assert (table.subject.str.fullmatch("9[0-9]{6}")).all()
    for grade, images in (("1", 5), ("2", 7)):
        assert len(list(folder.glob(f"*/{grade}/*.png"))) == images
    assert (table.groupby("subject")["split"].nunique() == 1).all()
    assert table.groupby("subject").size().max() == 2


def test_most_subjects_have_two_knees_of_like_grades(folder):
    grades = {}
    for file in folder.glob("*/*/*.png"):
        grades.setdefault(file.stem[:-1], []).append((file.stem[-1], int(file.parent.name)))
    pairs = [pair for pair in grades.values() if len(pair) == 2]
    assert len(pairs) > 0.7 * len(grades)
    assert all({side for side, _ in pair} == {"L", "R"} for pair in pairs)
    assert np.mean([abs(pair[0][1] - pair[1][1]) <= 1 for pair in pairs]) > 0.75


@pytest.mark.parametrize("split", [oai.csfl_split, oai.gold_split, oai.fssfl_split])
def test_every_split_can_be_made_of_it(split, table):
    for seed in range(3):
        assert len(split(table, seed)) == IMAGES


def test_the_joint_space_narrows_with_the_grade():
    least = [spaces(grade).min(axis=1).mean() for grade in range(5)]
    assert least[0] > least[1] > least[2] > least[3] > least[4]
    assert least[0] > 9 and least[3] < 6.5 and least[4] < 2.5


def test_mostly_the_inner_side_narrows():
    right, left = spaces(4, "R"), spaces(4, "L")
    assert (right[:, 1] < right[:, 0]).mean() > 0.6  # of a right knee the inner side is right
    assert (left[:, 0] < left[:, 1]).mean() > 0.6


def test_the_joint_space_tells_the_classes_apart():
    least = {grade: spaces(grade, count=80).min(axis=1) for grade in (0, 3, 4)}
    values = np.concatenate(list(least.values()))[:, None]
    labels = np.repeat(list(least), 80)
    train = np.arange(len(labels)) % 2 == 0
    model = LogisticRegression().fit(values[train], labels[train])
    assert f1_score(labels[~train], model.predict(values[~train]), average="macro") > 0.85


def test_the_dark_gap_of_the_images_shrinks(table, pixels):
    """Seen in the pixels: how much of the contrast a thin dark stripe has, where the narrower condyle is."""
    depth = []
    for image in pixels:
        stripe = cv2.morphologyEx(image, cv2.MORPH_BLACKHAT, np.ones((25, 1), np.uint8)).astype(float)
        left, right = (stripe[60:170, part].max(axis=0).mean() for part in (slice(45, 85), slice(140, 180)))
        depth.append(min(left, right) / (image.std() + 5))
    depth = np.array(depth)
    healthy, severe = (np.median(depth[table.label == label]) for label in ("healthy", "severe"))
    assert severe < 0.85 * healthy


def test_pixels_tell_a_linear_model_little(table, pixels):
    small = np.stack([cv2.resize(image, (32, 32), interpolation=cv2.INTER_AREA).ravel() for image in pixels])
    small = (small - small.mean(axis=0)) / (small.std(axis=0) + 1)
    train = (table.split == "train").to_numpy()
    model = LogisticRegression(max_iter=200, class_weight="balanced").fit(small[train], table.label[train])
    assert f1_score(table.label[~train], model.predict(small[~train]), average="macro") < 0.65


def test_exposures_differ_and_some_are_dark(pixels):
    assert pixels.shape == (IMAGES, knees.SIZE, knees.SIZE) and pixels.dtype == np.uint8
    means = pixels.mean(axis=(1, 2))
    assert 100 < np.median(means) < 190 and means.std() > 20
    assert 0.0 < (means < 45).mean() < 0.08


def test_the_seed_decides_and_the_size_is_kept(tmp_path):
    def images(name, **options):
        folder = knees.write_knees(tmp_path / name, images=80, size=64, progress=False, **options)
        return {str(file.relative_to(folder)): file.read_bytes() for file in folder.glob("*/*/*.png")}

    first = images("a")
    assert first == images("b")
    assert not first.keys() & images("c", seed=1).keys()
    assert cv2.imread(str(tmp_path / "a" / min(first)), cv2.IMREAD_UNCHANGED).shape == (64, 64)
    for split in (oai.csfl_split, oai.gold_split, oai.fssfl_split):  # the fewest images suffice for each
        assert len(split(oai.read_oai(tmp_path / "a"), 0)) == 80


@pytest.mark.parametrize("option", [{"images": 79}, {"size": 31}])
def test_too_small_is_refused(tmp_path, option):
    with pytest.raises(UserError, match=next(iter(option))):
        knees.write_knees(tmp_path / "k", **option)
    assert list(tmp_path.iterdir()) == []
