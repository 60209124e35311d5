"""FedSDA, `python -m tffapps.fedsda`: tumour or not, H&E patches from several centres whose stains differ.

The federation learns a diffusion model of the centres' stain matrices; every centre then gives its training images
stains drawn from all centres' distributions, and a classifier is trained as usual. Two things are combined freely:
  methods   how the classifier is trained: fedavg, fedprox, fedsam, fedlesam, fedfa
  sides     what is done to the images: none, fedsda, ccst (style transfer by AdaIN), amp-norm (Fourier amplitudes);
            and, where they are named, the rivals and controls of `tffapps.fedsda.controls`
Across sites every site measures its own stains and aligns its own patches (none and fedsda).
"""

from __future__ import annotations

import dataclasses
import math
import pathlib
from typing import Any

from models.names import HEADS
from preprocessing.stain_settings import METHODS as SEPARATIONS
from preprocessing.stain_settings import StainSettings
from tffapps import (
    DEMO_NETWORK,
    LAST,
    MODEL,
    MODEL_HELP,
    VALIDATION,
    Aggregation,
    App,
    ClassBalance,
    Common,
    CutSettings,
    Flags,
    Retraining,
    setting,
)
from tffapps import METHODS as ALL_METHODS
from tffapps.federated.method import SCHEDULES
from tffapps.privacy.stages import of_flag
from tffapps.settings import CHANGED

METHODS = ("fedavg", "fedprox", "fedsam", "fedlesam", "fedfa")
ON_REQUEST = ("fedavgm", "fedyogi", "fedadam", "fedadagrad", "scaffold", "fednova", "feddyn", "moon", "silobn")
SIDES = ("none", "fedsda", "ccst", "amp-norm")
SIDES_ON_REQUEST = (
    "own", "gaussian", "gaussian-dp", "fedsda+", "hed-jitter", "randstainna", "stain-mixup", "reinhard",
    "macenko", "vahadane",
)  # fmt: skip
SIDES_OF_SITES = ("none", "fedsda")  # what sites can do by themselves
# (method, side) of rivals that are both: HarmoFL's weights are perturbed as FedSAM's are, with the same radius.
HARMOFL, SILOBN = ("fedsam", "amp-norm"), ("silobn", "none")
METRICS = ("auroc", "auprc", "accuracy")
PAIRS = ("paper", "all")
DRIFT_ROBUST, GAUSSIAN_DP = "drift-robust", "gaussian-dp"
STAIN_MODELS = ("transformer", "token-mlp", "mlp", DRIFT_ROBUST, "gaussian", "mixture", GAUSSIAN_DP)
LEARNING_SEED = 0  # of the stain model and of CCST's decoder: one of each serves all seeds


@dataclasses.dataclass(frozen=True)
class ClassifierSettings:
    """The classifier and its training: of every run but those of stain models and of CCST's decoder."""

    model: str = setting("densenet121", f"classifier: {MODEL_HELP} (paper)", **MODEL)
    size: int = setting(96, "images are resized to this many pixels on a side", least=8)
    head: str = setting(
        "auto",
        "gap, flatten256, conv or conv64; auto: conv on a cut, else gap, global average pooling (paper)",
        choices=("auto", *HEADS),
    )
    rounds: int = setting(100, "rounds of the classifier (paper)", least=1)
    epochs: int = setting(1, "local epochs a round (paper)", least=1)
    batch: int = setting(128, "images a batch (paper)", least=1)
    views: int = setting(
        1, "stored views of each training patch, drawn anew by the sides that draw", least=1, in_key=CHANGED
    )


@dataclasses.dataclass(frozen=True)
class FedsdaSettings:
    """Which runs there are. They are told apart by their labels, and splits by the fingerprint of the patches."""

    sides: tuple[str, ...] = setting(
        SIDES,
        "what is done to the training images",
        choices=(*SIDES, *SIDES_ON_REQUEST),
        metavar="A,B",
        in_key=False,
    )
    pairs: str = setting(
        "paper", "every method on none and fedsda, fedavg on every side; or all with all", choices=PAIRS, in_key=False
    )
    train_share: float = setting(
        0.0, "of each centre; 0: 0.8 of a WILDS folder, 0.6 of others (paper)", least=0, below=1, in_key=False
    )
    quality_only: bool = setting(
        False, "images are aligned and measured, and nothing is classified: one class is enough", in_key=False
    )
    leave_out: bool = setting(False, "also train without each centre in turn and test on all of it", in_key=False)
    leave_out_sides: tuple[str, ...] = setting(
        (),
        "with --leave-out: on these of --sides alone; none named: on all",
        choices=(*SIDES, *SIDES_ON_REQUEST),
        metavar="A,B",
        in_key=False,
    )
    standin_patches: int = setting(300, "stand-in: patches of each centre", least=20, in_key=False)
    standin_centres: int = setting(4, "stand-in: centres", least=1, most=5, in_key=False)


@dataclasses.dataclass(frozen=True)
class SeparationSettings:
    """How patches are taken apart into stains."""

    stain_method: str = setting("vahadane", "stain separation", choices=SEPARATIONS)
    stain_lambda: float = setting(0.1, "sparsity while a stain matrix is learned", least=0)

    def of_patches(self) -> StainSettings:
        return StainSettings(method=self.stain_method, lambda_matrix=self.stain_lambda)


@dataclasses.dataclass(frozen=True)
class StainModelSettings:
    """A denoiser of stain matrices and its training."""

    blocks: tuple[str, ...] = setting(
        ("transformer", "token-mlp", "gaussian", "mixture"),
        "stain models of Table 1: denoisers (token-mlp: the paper's MLP; mlp: ours; drift-robust: the transformer held "
        "to the global model, each client's row its own), each client's Gaussian or mixture",
        choices=STAIN_MODELS,
        metavar="A,B",
        in_key=False,  # a label of the denoiser; classifiers count the images made with it by their fingerprint
    )
    stain_model: str = setting(
        "first",
        "the one that patches are restained by; first: of --blocks",
        choices=("first", *STAIN_MODELS),
        in_key=False,
    )
    stain_epsilon: float = setting(
        4.0, "gaussian-dp: epsilon of each patch in what its client sends", above=0, in_key=False
    )
    stain_delta: float = setting(1e-5, "gaussian-dp: delta", above=0, below=1, in_key=False)
    mixture_components: int = setting(3, "Gaussians in a client's mixture, at most", least=1, most=16, in_key=False)
    diffusion_rounds: int = setting(3, "rounds of the denoiser (paper)", least=1)
    diffusion_epochs: int = setting(300, "its local epochs a round (paper)", least=1)
    diffusion_batch: int = setting(65536, "its stain matrices a batch (paper)", least=1)
    diffusion_learning_rate: float = setting(2e-4, "its learning rate, AdamW (paper)", above=0)
    diffusion_weight_decay: float = setting(3e-2, "its weight decay (paper)", least=0)
    diffusion_equal: bool = setting(False, "every client counts the same in it; else by its patches (paper)")
    diffusion_schedule: str = setting("constant", "its learning rate over rounds", choices=SCHEDULES)
    diffusion_steps: int = setting(1000, "T, steps from stains to noise", least=2, most=10000)
    diffusion_mu: float = setting(1.0, "drift-robust: weight of its proximal term", least=0, in_key=CHANGED)

    @property
    def used(self) -> str:
        """The stain model that patches are restained by."""
        return self.blocks[0] if self.stain_model == "first" else self.stain_model

    def with_epochs(self, epochs: int, most_rounds: int) -> StainModelSettings:
        """Another number of local epochs in about as many epochs in all, but in no more than so many rounds."""
        rounds = math.ceil(self.diffusion_rounds * self.diffusion_epochs / epochs)
        return dataclasses.replace(self, diffusion_rounds=min(rounds, most_rounds), diffusion_epochs=epochs)

    def rate(self, number: int) -> float:
        """The share of the learning rate in a round."""
        if self.diffusion_schedule == "constant":
            return 1.0
        return 0.5 * (1 + math.cos(math.pi * (number - 1) / self.diffusion_rounds))


@dataclasses.dataclass(frozen=True)
class StainStudySettings:
    """How denoisers are measured, and their other schedules: those have other numbers of rounds and epochs."""

    sweep_epochs: tuple[int, ...] = setting(
        (1, 2, 3, 4, 100, 200),
        "Figure 7: other local epochs, as many epochs in all",
        metavar="1,100",
        least=1,
        in_key=False,
    )
    sweep_rounds: int = setting(300, "at most this many rounds for each of them", least=1, in_key=False)
    every_schedule: bool = setting(
        False, "Table 1: every denoiser in the other schedules, not the first alone", in_key=False
    )
    fd_samples: int = setting(1000, "stain matrices of each client drawn to measure the denoiser", least=8)
    fd_points: int = setting(10, "how often along a denoiser's training", least=1)


@dataclasses.dataclass(frozen=True)
class CcstDecoderSettings:
    """The network of CCST that the federation trains."""

    ccst_weights: str = setting(
        "random", "VGG-19 of CCST: imagenet, random or a file", metavar="imagenet|random|FILE", in_key=False
    )  # counts by its hash
    ccst_decoder: str = setting(
        "",
        "CCST with AdaIN's own trained decoder, a file; --ccst-weights is then the file of its encoder. Else the "
        "federation trains one",
        metavar="FILE",
        in_key=False,
    )  # counts by the images made
    ccst_width: int = setting(64, "filters of its first block; 64 is VGG-19", least=4)
    ccst_size: int = setting(96, "pixels on a side of the images that its decoder learns from", least=16)
    ccst_rounds: int = setting(20, "rounds of its decoder", least=1)
    ccst_batch: int = setting(8, "images a batch of its decoder (Huang and Belongie)", least=1)
    ccst_learning_rate: float = setting(1e-4, "Adam, of its decoder (Huang and Belongie)", above=0)

    def described(self) -> str:
        """How tables call its VGG-19."""
        if self.ccst_decoder:
            names = [pathlib.Path(file).name for file in (self.ccst_weights, self.ccst_decoder)]
            return f"published: {' and '.join(names)}"
        named = self.ccst_weights in ("imagenet", "random")
        source = self.ccst_weights if named else f"file:{pathlib.Path(self.ccst_weights).name}"
        return f"{source}, width {self.ccst_width}"


@dataclasses.dataclass(frozen=True)
class CcstSettings:
    """What CCST does to images with its decoder."""

    ccst_alpha: float = setting(1.0, "how much of the style (paper)", least=0, most=1)
    ccst_side: int = setting(
        0, "pixels on a side that its networks see; 0: as many as there are; CCST's code: 512", least=0, most=2048
    )
    ccst_styles: int = setting(0, "styles each image is given; 0: those of all clients (paper)", least=0)


@dataclasses.dataclass(frozen=True)
class AmplitudeSettings:
    amplitude_decay: float = setting(0.1, "v of amp-norm (HarmoFL's code)", above=0, most=1)
    amplitude_band: float = setting(
        0.0,
        "L of amp-norm: frequencies up to this share of the side are replaced; 0: the mean colour alone, as HarmoFL "
        "runs it; 0.5: all, as FedSDA prints it",
        least=0,
        most=0.5,
    )


@dataclasses.dataclass(frozen=True)
class QualitySettings:
    """How pictures are measured once they are made: no run depends on it."""

    inception: str = setting(
        "random", "weights for FID and KID: imagenet, random or a file", metavar="imagenet|random|FILE", in_key=False
    )
    inception_size: int = setting(299, "pixels on a side that Inception sees", least=75, in_key=False)
    quality_images: int = setting(
        1000, "images of each client that FID, KID, SSIM and WD are measured on", least=2, in_key=False
    )


# Small data has few batches an epoch: more rounds of fewer epochs, and larger steps; and a smaller penalty leaves
# stains nearer to the truth. See the README.
_SMALL_DATA: dict[str, Any] = {
    "stain_lambda": 0.02,
    "diffusion_rounds": 90,
    "diffusion_epochs": 5,
    "diffusion_learning_rate": 4e-3,
    "diffusion_schedule": "cosine",
}
_SMALL: dict[str, Any] = {
    **_SMALL_DATA,
    "model": "tiny",
    "size": 48,
    "rounds": 3,
    "epochs": 3,
    "batch": 16,
    "learning_rate": 0.1,
    "sweep_epochs": (225,),
    "fd_samples": 128,
    "fd_points": 2,
    "ccst_width": 8,
    "ccst_size": 48,
    "ccst_rounds": 5,
    "ccst_batch": 4,
    "ccst_learning_rate": 1e-3,
    "ccst_styles": 1,
    "inception_size": 96,
    "quality_images": 40,
    "standin_patches": 180,
}
PROFILES: dict[str, dict[str, Any]] = {
    "smoke": {
        "model": "tiny",
        "size": 32,
        "rounds": 1,
        "batch": 16,
        "learning_rate": 0.1,
        "seeds": (0,),
        "diffusion_rounds": 2,
        "diffusion_epochs": 2,
        "diffusion_learning_rate": 4e-3,
        "diffusion_steps": 20,
        "sweep_epochs": (4,),
        "fd_samples": 16,
        "fd_points": 1,
        "ccst_width": 4,
        "ccst_size": 32,
        "ccst_rounds": 1,
        "ccst_batch": 32,
        "ccst_styles": 1,
        "inception_size": 75,
        "quality_images": 4,
        "standin_patches": 24,
        "standin_centres": 2,
    },
    "small": _SMALL,
    "demo": {**_SMALL, **DEMO_NETWORK},
    # DenseNet-121 from scratch, as nothing else is said of it. CAMELYON17's patches have 96 pixels, AGGC22's 256.
    # CCST and FID are other papers' methods, defined on pretrained networks.
    "paper": {
        "size": 96,
        "head": "gap",
        "train_from": "all",
        "learning_rate": 1e-3,
        "ccst_weights": "imagenet",
        "ccst_side": 512,
        "inception": "imagenet",
        "standin_centres": 5,
    },
}


def _networks(flags: Flags) -> dict[str, tuple[str, ...]]:
    classified = not flags[FedsdaSettings].quality_only
    networks: dict[str, tuple[str, ...]] = {"weights": (flags[ClassifierSettings].model,)} if classified else {}
    sides = () if flags[Common].across_sites else flags[FedsdaSettings].sides  # sites have neither ccst nor pictures
    if "ccst" in sides and not flags[CcstDecoderSettings].ccst_decoder:
        networks["ccst_weights"] = ("vgg19",)
    if len(sides) > 1:
        networks["inception"] = ("inceptionv3",)
    return networks


APP = App(
    name="fedsda",
    package=__name__,
    summary="H&E patches whose stains differ between centres",
    description="Federated classification of H&E patches whose stains differ: FedSDA, CCST, amp-norm.",
    settings=(
        ClassifierSettings, CutSettings, FedsdaSettings, SeparationSettings, StainModelSettings, StainStudySettings,
        CcstDecoderSettings, CcstSettings, AmplitudeSettings, QualitySettings,
        ClassBalance, Retraining, Aggregation, *(ALL_METHODS[name] for name in (*METHODS, *ON_REQUEST)),
    ),
    profiles=PROFILES,
    methods=(*METHODS, *ON_REQUEST),
    on_request=ON_REQUEST,
    narrowed=(("side", "sides"),),
    not_across_sites={},
    networks=_networks,
    stages=(
        of_flag("sides", "fedsda", "the moments of stains and the stain model that clients learn for --sides fedsda"),
        of_flag("sides", "ccst", "the styles that clients send and the decoder that they learn for --sides ccst"),
        *(of_flag("sides", side, f"what clients tell of colours for --sides {side}") for side in SIDES_ON_REQUEST),
        of_flag("sides", "amp-norm", "the mean amplitudes that clients send for --sides amp-norm"),
    ),
    divides=True,
    mixes=True,
    selects=(LAST, VALIDATION),
)  # fmt: skip
