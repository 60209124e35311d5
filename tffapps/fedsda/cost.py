"""What a command costs: see `tffapps.estimate`. amp-norm, which is a Fourier transform, is left out."""

import numpy as np
import tensorflow as tf

from models import adain as networks
from models import ddpm, stain_diffusion, vgg
from preprocessing import adain, stain
from preprocessing.stain_settings import StainSettings
from tffapps import Common, Flags, Pool, Split
from tffapps.data.made import stacks
from tffapps.estimate import Cost, Steps, Work
from tffapps.fedsda import (
    CcstDecoderSettings,
    CcstSettings,
    ClassifierSettings,
    FedsdaSettings,
    QualitySettings,
    SeparationSettings,
    StainModelSettings,
    StainStudySettings,
    data,
)
from tffapps.fedsda.data import FEDERATION, Fold
from tffapps.fedsda.stain_mixtures import STATISTICS
from tffapps.fedsda.trials import is_wanted
from tffapps.measured_networks import classifiers, inputs_of, keras_steps, png_bytes

_GRADIENTS = {"fedsam": 2, "ditto": 2, "moon": 2}  # in a step, and what costs as much
_MATRICES = 8192  # stain matrices in a call, at most
_PATCHES = 32  # patches that are taken apart in a call


def costs(flags: Flags, pool: Pool) -> list[Cost]:
    settings, sides, seeds = flags[ClassifierSettings], flags[FedsdaSettings].sides, len(flags[Common].seeds)
    quality, folds = flags[QualitySettings], data.folds(Split("", pool), flags) * flags[Common].split_count
    training = inference = runs = 0
    for fold in folds:
        for side in sides:
            for method in _methods(side, fold, flags):
                images = len(fold.train) * (_styles(fold, flags) if side == "ccst" else 1)
                training += _GRADIENTS.get(method, 1) * settings.rounds * settings.epochs * images
                inference += settings.rounds * len(fold.test)
                runs += 1
    inputs = inputs_of(flags, len(pool.classes))
    size = inputs.network.input_shape[1]
    found = classifiers(
        inputs, training=seeds * training, inference=seeds * inference, runs=seeds * runs,
        images=len(pool.table) * (1 + seeds * (len(sides) - 1)),
    )  # fmt: skip
    for fold in folds:
        if "fedsda" in sides:
            found += _stains(flags, fold, size)
        if "ccst" in sides:
            found += _ccst(flags, fold, size)
        if "amp-norm" in sides:
            found.append(Cost("stains", _separation(flags, fold), bytes=png_bytes(len(fold.train), size)))
    if len(sides) > 1:
        pictures = sum(min(quality.quality_images, len(folds[0].of_client(name))) for name in folds[0].clients)
        found.append(Cost("picture quality", _inception(quality.inception_size), inference=len(sides) * pictures))
    return found


def _methods(side: str, fold: Fold, flags: Flags) -> list[str]:
    """As `trials` has them."""
    return [method for method in flags[Common].methods if is_wanted(method, side, fold, flags[FedsdaSettings])]


def _stains(flags: Flags, fold: Fold, size: int) -> list[Cost]:
    """Separation, the models of stains, what is drawn from them, and alignment."""
    model, study, seeds = flags[StainModelSettings], flags[StainStudySettings], len(flags[Common].seeds)
    patches, clients = len(fold.train), len(fold.clients)
    trained = [block for block in {model.used, *model.blocks} if block not in STATISTICS]
    schedules = [model] * len(trained)
    if fold.name == FEDERATION:
        others = [epochs for epochs in study.sweep_epochs if epochs != model.diffusion_epochs]
        swept = len(trained) if study.every_schedule else min(1, len(trained))
        schedules += [model.with_epochs(epochs, study.sweep_rounds) for epochs in others] * swept
    else:
        schedules = [] if model.used in STATISTICS else [model]
    drawn = clients * study.fd_samples * sum(min(study.fd_points, each.diffusion_rounds) for each in schedules)
    batch = min(model.diffusion_batch, -(-patches // clients))
    denoiser = _denoiser(min(batch, _MATRICES), clients, model.diffusion_steps)
    return [
        Cost(
            "stain models",
            denoiser,
            training=patches * sum(each.diffusion_rounds * each.diffusion_epochs for each in schedules),
            inference=model.diffusion_steps * (drawn + seeds * patches),
            checkpoints=len(schedules),
        ),
        Cost(
            "stains", _separation(flags, fold), inference=(1 + seeds) * patches, bytes=png_bytes(seeds * patches, size)
        ),
    ]


def _ccst(flags: Flags, fold: Fold, size: int) -> list[Cost]:
    settings, seeds, patches = flags[CcstDecoderSettings], len(flags[Common].seeds), len(fold.train)
    made = seeds * _styles(fold, flags) * patches
    decoder = _decoder(settings.ccst_width, settings.ccst_size, settings.ccst_batch)
    share = (size / settings.ccst_size) ** 2  # of a pass, for patches of another size
    training, inference = settings.ccst_rounds * patches, share * (made + patches)
    return [Cost("CCST", decoder, training, inference, checkpoints=1, bytes=png_bytes(made, size))]


def _styles(fold: Fold, flags: Flags) -> int:
    clients = len(fold.clients)
    return min(flags[CcstSettings].ccst_styles or clients, clients)


def _separation(flags: Flags, fold: Fold) -> Work:
    """Of patches of the pool: how long it takes depends on what is seen on them."""
    settings: StainSettings = flags[SeparationSettings].of_patches()

    def make() -> Steps:
        _, images = next(stacks(list(fold.train.path[:_PATCHES]), batch=_PATCHES, rejects={}))
        return Steps(len(images), infer=lambda: stain.separate(images, settings))

    return Work("stain separation", make)


def _denoiser(batch: int, clients: int, steps: int) -> Work:
    def make() -> Steps:
        model = stain_diffusion.build("transformer", clients=clients, schedule=ddpm.scaled(steps))
        numbers = np.zeros(batch, np.int32)
        vectors = np.zeros((batch, stain_diffusion.NUMBERS), np.float32)
        return keras_steps(model, lambda error: tf.reduce_mean(error**2), [vectors, numbers + 1, numbers])

    return Work(f"denoiser, {batch} at once", make)


def _decoder(width: int, size: int, batch: int) -> Work:
    def make() -> Steps:
        encoder = vgg.build(networks.LAYER, width=width)
        model = adain.training_model(encoder, networks.decoder(width, 0, networks.scale_of(encoder)))
        images = np.random.default_rng(0).random((min(batch, 4), size, size, 3), np.float32)
        return keras_steps(model, tf.reduce_mean, [images])

    return Work(f"AdaIN of width {width}, {size} pixels", make)


def _inception(size: int) -> Work:
    def make() -> Steps:
        return keras_steps(
            tf.keras.applications.InceptionV3(include_top=False, weights=None, input_shape=(size, size, 3))
        )

    return Work(f"InceptionV3 of {size} pixels", make)
