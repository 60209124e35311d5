"""A stand-in for the OAI knees: drawn radiographs in the layout that `oai.read_oai` reads.

    <folder>/{train,val,test}/{0,1,2,3,4}/9595235R.png

What the grade changes is what a radiologist looks at: the joint space narrows on one side, spurs (osteophytes) grow
at the joint's corners, the bone beside the narrow space turns white (sclerosis). Position, rotation, scale,
exposure and noise say nothing about it and hide it from a linear model on pixels. The knees of a subject have the
same build. A few images are almost black or show half a knee, as in the real set.
"""

import dataclasses
import math
from pathlib import Path

import cv2
import numpy as np
from scipy.interpolate import Akima1DInterpolator

from tffapps.data import partition
from tffapps.data.standin import Item, write
from tffapps.errors import UserError

SIZE = 224  # pixels, of the real images; every length below is a share of it
_SHARES = {0: 2790, 3: 987, 4: 280}  # images of the grades in use, thesis Table 4.4
_OTHERS = {1: 0.02, 2: 0.03}  # drawn although no one uses them, because the real folder has them; share of all
_FEWEST = 80  # images that every split of the thesis can be made of
_BOTH_KNEES = 0.85  # of the subjects
_ALIKE = 1.2  # how much rarer a second knee becomes with each grade that separates it from the first

# By grade 0 to 4: mean and spread of the narrow side's joint space, in pixels; mean length of spurs; sclerosis.
_SPACE = ((11.5, 1.2), (10.6, 1.2), (9.0, 1.3), (6.0, 1.3), (2.0, 0.9))
_SPUR = (0.003, 0.006, 0.011, 0.017, 0.025)
_SCLEROSIS = (0.04, 0.05, 0.06, 0.09, 0.13)
_MEDIAL = 0.75  # how often it is the inner side that narrows
_DARK, _CUT = 0.025, 0.02  # how many images are spoilt

# Outlines of a right knee (outer side left), from the upper or the outer left corner round to the right.
_CONDYLE = ((-0.31, -0.85), (-0.32, -0.52), (-0.37, -0.39), (-0.43, -0.28), (-0.435, -0.16), (-0.41, -0.07),
            (-0.36, -0.017), (-0.27, 0.0), (-0.19, -0.004), (-0.12, -0.03), (-0.07, -0.075), (0.0, -0.10))  # fmt: skip
_TIBIA = ((-0.25, 0.90), (-0.26, 0.52), (-0.31, 0.32), (-0.37, 0.15), (-0.405, 0.050), (-0.395, 0.002),
          (-0.32, 0.010), (-0.22, 0.014), (-0.12, 0.0), (-0.055, -0.040), (-0.005, -0.026), (0.035, -0.052),
          (0.11, -0.006), (0.22, 0.014), (0.32, 0.010), (0.395, 0.002), (0.405, 0.050), (0.38, 0.15),
          (0.31, 0.32), (0.26, 0.52), (0.25, 0.90))  # fmt: skip
_FIBULA = ((-0.47, 0.90), (-0.46, 0.48), (-0.50, 0.32), (-0.49, 0.20), (-0.42, 0.14), (-0.35, 0.19),
           (-0.33, 0.31), (-0.37, 0.48), (-0.39, 0.90))  # fmt: skip
_LOWEST = 0.014  # where the plateau of the tibia is deepest, below the outline's zero
_BEARING = 0.25  # how far from the middle the joint space is measured


@dataclasses.dataclass(frozen=True)
class Knee:
    """The bones of one knee, as outlines in shares of the image, the joint in the middle."""

    femur: np.ndarray  # (points, 2)
    tibia: np.ndarray
    fibula: np.ndarray
    narrow: float  # -1 or 1: the side of the image where the joint space is narrow
    sclerosis: float


def write_knees(folder: Path, *, images: int = 900, size: int = SIZE, seed: int = 0, progress: bool = True) -> Path:
    """Draws `images` knees of grades 0, 3 and 4 in the real proportions, and a few of grades 1 and 2 besides."""
    for name, value, least in (("images", images, _FEWEST), ("size", size, 32)):
        if value < least:
            raise UserError(f"knees: {name} {value} is too small; give at least {least}")
    items = _items(images, size, seed)
    return write(folder, items, _draw, seed, "knees", parameters={"images": images, "size": size}, progress=progress)


def _items(images: int, size: int, seed: int) -> list[Item]:
    rng = np.random.default_rng([seed, 0, 0])  # three numbers: never the same as an item's two
    subjects, grades = _people(_counts(images), rng)
    names = 9_000_000 + rng.choice(1_000_000, subjects[-1] + 1, replace=False)
    place = partition.stratified(grades, (0.7, 0.1, 0.2), seed, groups=subjects)
    first = rng.permuted(np.tile(["L", "R"], (len(names), 1)), axis=1)
    items = []
    for row, (subject, grade) in enumerate(zip(subjects, grades)):
        side = str(first[subject, int(row > 0 and subjects[row - 1] == subject)])
        fields = {"grade": grade, "side": side, "subject": subject, "size": size, "seed": seed}
        path = f"{('train', 'val', 'test')[place[row]]}/{grade}/{names[subject]}{side}.png"
        items.append(Item(path, fields))
    return items


def _counts(images: int) -> np.ndarray:
    """How many images of grades 0 to 4."""
    total = sum(_SHARES.values())
    counts = np.array([round(images * _SHARES.get(grade, 0) / total) for grade in range(5)])
    counts[0] += images - counts.sum()
    for grade, share in _OTHERS.items():
        counts[grade] = max(1, round(share * images))
    return counts


def _people(counts: np.ndarray, rng: np.random.Generator) -> tuple[list[int], list[int]]:
    """The subject and the grade of every image: most subjects have two knees, mostly of like grades."""
    left = counts.astype(float)
    subjects: list[int] = []
    grades: list[int] = []
    while left.any():
        subject = subjects[-1] + 1 if subjects else 0
        weights = left.copy()
        for _ in range(2 if rng.random() < _BOTH_KNEES else 1):
            if not left.any():
                break
            grade = int(rng.choice(5, p=weights / weights.sum()))
            left[grade] -= 1
            subjects.append(subject)
            grades.append(grade)
            weights = left * np.exp(-_ALIKE * np.abs(np.arange(5) - grade))
    return subjects, grades


def anatomy(rng: np.random.Generator, build: np.random.Generator, grade: int, side: str) -> Knee:
    """A knee of the given grade; `build` is what the knees of a subject have in common."""
    femur = np.array(_CONDYLE + tuple((-x, y) for x, y in _CONDYLE[-2::-1]))
    tibia, fibula = np.array(_TIBIA), np.array(_FIBULA)
    for bone in (femur, tibia, fibula):
        bone *= 1 + build.normal(0, (0.03, 0.02), 2)
        bone += build.normal(0, (0.004, 0.0025), bone.shape) + rng.normal(0, 0.0015, bone.shape)
    fibula += build.normal(0, (0.02, 0.03))
    narrow = 1.0 if rng.random() < _MEDIAL else -1.0  # the inner side is right
    for corner, bone in ((5, femur), (-6, femur), (5, tibia), (-6, tibia)):
        _grow_spur(bone, corner, rng.gamma(2.0, _SPUR[grade] / 2.0), up=bone is tibia)
    mean, spread = _SPACE[grade]
    least = max(0.0, rng.normal(mean, spread))
    other = max(least + rng.uniform(0, 3), rng.normal(11.0, 2.0))
    # The bones tilt towards each other; the space between is a straight wedge in addition to their outlines.
    low, high = (least, other) if narrow < 0 else (other, least)
    wedge = low + (high - low) * (femur[:, 0] + _BEARING) / (2 * _BEARING)
    femur[:, 1] += _LOWEST - wedge / SIZE
    slope = rng.normal(0, 0.04)  # the joint is not at right angles to the leg
    for bone in (femur, tibia):
        bone[:, 1] += slope * bone[:, 0]
    if side == "L":
        narrow = -narrow
        for bone in (femur, tibia, fibula):
            bone[:, 0] *= -1
    sclerosis = _SCLEROSIS[grade] * rng.gamma(3.0, 1 / 3.0)
    return Knee(_smooth(femur), _smooth(tibia), _smooth(fibula), narrow, sclerosis)


def _grow_spur(bone: np.ndarray, corner: int, length: float, up: bool) -> None:
    outwards = math.copysign(1.0, bone[corner, 0])
    bone[corner] += length * np.array([outwards, -0.35 if up else 0.5])


def _smooth(points: np.ndarray) -> np.ndarray:
    along = np.concatenate([[0], np.cumsum(np.hypot(*np.diff(points, axis=0).T))])
    return Akima1DInterpolator(along, points)(np.linspace(0, along[-1], 160))


def bones(knee: Knee, matrix: np.ndarray) -> list[np.ndarray]:
    """Masks of femur, tibia and fibula, uint8 (SIZE, SIZE); `matrix` (2, 3) takes outlines to pixels."""
    masks = []
    for outline in (knee.femur, knee.tibia, knee.fibula):
        mask = np.zeros((SIZE, SIZE), np.uint8)
        points = np.round((outline @ matrix[:, :2].T + matrix[:, 2]) * 16).astype(np.int32)
        cv2.fillPoly(mask, [points], (255,), cv2.LINE_AA, shift=4)  # sixteenths of a pixel
        masks.append(mask)
    return masks


def placement(rng: np.random.Generator) -> np.ndarray:
    """Where the knee lies in the image: a (2, 3) matrix."""
    angle, scale = math.radians(rng.uniform(-6, 6)), SIZE * rng.uniform(0.86, 1.14)
    turn = scale * np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
    if rng.random() < _CUT:
        centre = rng.choice([-1, 1]) * rng.uniform((0.38, -0.05), (0.55, 0.05))
    else:
        centre = rng.uniform(-0.08, 0.08, 2)
    return np.column_stack([turn, SIZE * (0.5 + centre + (0.0, 0.02))])


def _draw(rng: np.random.Generator, item: Item) -> np.ndarray:
    fields = item.fields
    build = np.random.default_rng([fields["seed"], fields["subject"], 1])
    knee = anatomy(rng, build, fields["grade"], fields["side"])
    image = _expose(_attenuation(knee, placement(rng), rng, build), rng)
    size = fields["size"]
    if size != SIZE:
        image = cv2.resize(image, (size, size), interpolation=cv2.INTER_AREA)
    return (255 * np.clip(image, 0, 1)).round().astype(np.uint8)


def _attenuation(knee: Knee, matrix: np.ndarray, rng: np.random.Generator, build: np.random.Generator) -> np.ndarray:
    """How much of the beam flesh and bone take away, float32 (SIZE, SIZE)."""
    u, v = _as_in_outlines(matrix)
    near_joint = _step(0.10 - np.abs(v), 0.02)
    beside = _step(knee.narrow * u - 0.08, 0.04) * near_joint
    wide = build.uniform(0.55, 0.9) + 0.1 * np.abs(v)
    flesh = np.sqrt(np.maximum(1 - ((u - build.uniform(-0.08, 0.08)) / wide) ** 2, 0))
    total = flesh * (0.43 - 0.05 * v + 0.02 * _clouds(rng, 6))
    patella = np.hypot((u - build.normal(0, 0.03)) / 0.15, (v + build.uniform(0.24, 0.34)) / 0.14)
    total += build.uniform(0.02, 0.06) * _step(1 - patella, 0.06)
    texture = _trabeculae(rng, build.uniform(0.008, 0.03))
    sharp = 0.06 + 0.03 * _clouds(rng, 7)  # the outline is not equally clear everywhere
    white = knee.sclerosis * beside
    rim = np.maximum(sharp, 0.01) + (0.06 + 0.8 * sharp) * near_joint + 0.25 * white
    body = np.zeros_like(total)
    for mask, density in zip(bones(knee, matrix), (0.20, 0.17, 0.06)):
        depth = cv2.distanceTransform((mask > 127).view(np.uint8), cv2.DIST_L2, 3)
        shell = np.exp(-(((depth - 1.5) / 1.6) ** 2))
        within = np.exp(-depth / 12)
        bone = density * (1 - 0.5 * within) + rim * shell + white * within + texture
        bone *= mask * np.float32(1 / 255)
        body = body + bone if density < 0.1 else np.maximum(body, bone)  # where the joint closes, the denser
    for level, bend in ((0.14, 0.02), (-0.24, -0.03)):  # scars of the growth plates
        line = v - level - bend * np.cos(7 * u) + 0.008 * _clouds(rng, 9)
        body += 0.03 * np.exp(-((line / 0.007) ** 2)) * (body > 0.08)
    return total + body


def _as_in_outlines(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The place of every pixel in the coordinates of the outlines, two float32 (SIZE, SIZE)."""
    back = np.linalg.inv(matrix[:, :2]).astype(np.float32)
    x, y = (np.arange(SIZE, dtype=np.float32) - np.float32(shift) for shift in matrix[:, 2])
    return back[0, 0] * x + back[0, 1] * y[:, None], back[1, 0] * x + back[1, 1] * y[:, None]


def _expose(attenuation: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The radiograph in [0, 1]: some pale, some harsh, some burnt out, a few almost black."""
    across = np.linspace(-0.5, 0.5, SIZE, dtype=np.float32)
    slope = rng.normal(0, (0.15, 0.2)).astype(np.float32)
    dose = math.exp(rng.normal(0.15, 0.28)) * (1 + slope[0] * across + slope[1] * across[:, None])
    image = 1 - np.exp(-((1.9 * dose * attenuation) ** rng.uniform(1.1, 2.2)))
    image = cv2.GaussianBlur(image, (0, 0), rng.uniform(0.5, 1.0))
    image = image + rng.uniform(0.004, 0.025) * rng.standard_normal(image.shape, np.float32)
    if rng.random() < _DARK:
        return image * rng.uniform(0.05, 0.2)
    return rng.uniform(0, 0.08) + rng.uniform(0.8, 0.98) * image


def _step(value: np.ndarray, width: float) -> np.ndarray:
    """0 below zero, 1 above it, and a slope between."""
    return np.clip(value / (4 * width) + 0.5, 0, 1)


def _clouds(rng: np.random.Generator, cells: int) -> np.ndarray:
    coarse = rng.standard_normal((cells, cells), np.float32)
    return cv2.resize(coarse, (SIZE, SIZE), interpolation=cv2.INTER_CUBIC)


def _trabeculae(rng: np.random.Generator, strength: float) -> np.ndarray:
    """The grain of spongy bone, mostly upright."""
    noise = rng.standard_normal((SIZE, SIZE), np.float32)
    fine = cv2.GaussianBlur(noise, (0, 0), sigmaX=0.6, sigmaY=2.0)
    grain = fine + 0.5 * cv2.GaussianBlur(noise[::-1], (0, 0), sigmaX=0.8, sigmaY=5.0)
    return grain * np.float32(strength / grain.std())
