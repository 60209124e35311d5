"""What a command costs: see `tffapps.estimate`."""

from tffapps import Common, Flags, Pool
from tffapps.estimate import Cost
from tffapps.fnst import (
    AloneSettings,
    AttackSettings,
    Augmentation,
    FederationSettings,
    GramSettings,
    SharingSettings,
    TransferSettings,
    data,
    parts,
)
from tffapps.fnst.data import AS_GIVEN
from tffapps.fnst.exchange import repeated
from tffapps.measured_networks import classifiers, inputs_of, png_bytes, style_steps


def costs(flags: Flags, pool: Pool) -> list[Cost]:
    common, sharing, together = flags[Common], flags[SharingSettings], flags[FederationSettings]
    alone, grams, methods = flags[AloneSettings], flags[GramSettings], common.methods
    test, seed = len(pool.part("test")), common.seeds[0]
    training = inference = runs = made = 0

    def count(epochs: int, rounds: int, images: int, times: int = 1) -> None:
        nonlocal training, inference, runs
        training += epochs * images
        inference += times * rounds * test
        runs += times

    if "centralised" in methods:
        count(alone.rounds * alone.epochs, alone.rounds, len(pool.part("train")))
    for rare in (AS_GIVEN,) if pool.given else sharing.rare:
        federation = data.shared_out(pool, rare, seed)
        images = len(federation.part("train"))
        if "separate" in methods:
            count(alone.rounds * alone.epochs, alone.rounds, images, len(federation.clients))
        for method in parts.trained(methods):
            if not method.multiplies:
                count(together.rounds * together.epochs, together.rounds, images)
    for augmentation in map(Augmentation.parse, sharing.augmentations):
        federation = data.shared_out(pool, data.rare_of(pool, augmentation), seed)
        more = len(repeated(federation, augmentation))
        images = len(federation.part("train")) + more
        for method in parts.trained(methods):
            if method.multiplies:
                times = sum(name in parts.STYLED or name in parts.COPIES for name in method.parts)
                count(together.rounds * together.epochs, together.rounds, images + (times - 1) * more)
        for _ in parts.on_best(methods):  # the control on top may multiply the images once more
            count(together.rounds * together.epochs, together.rounds, images + more)
        optimised = [name for name in parts.styles_needed(methods) if parts.PARTS[name].styled == {}]
        made += len(optimised) * more if grams.transfer == "optimise" else 0
    seeds = len(common.seeds) * common.split_count
    found = classifiers(
        inputs_of(flags, len(pool.classes)), training=seeds * training, inference=seeds * inference, runs=seeds * runs,
        images=len(pool.table) + seeds * made,
    )  # fmt: skip
    styles, attack = style_steps(grams.vgg_width, grams.style_size), flags[AttackSettings]
    steps = seeds * made * flags[TransferSettings].style_steps
    found.append(Cost("style transfer", styles, training=steps, bytes=png_bytes(seeds * made, grams.style_size)))
    if attack.attack:
        found.append(Cost("attack", styles, training=attack.attack_images * attack.attack_steps))
    return found
