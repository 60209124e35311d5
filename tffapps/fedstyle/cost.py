"""What a command costs: see `tffapps.estimate`."""

from tffapps import Common, Flags, Pool
from tffapps.estimate import Cost
from tffapps.fedstyle import (
    FedStyleClientSettings,
    FedStyleCloakSettings,
    FedStylePublicSettings,
    FedStyleSettings,
    FedStyleStartSettings,
    FedStyleStudySettings,
    data,
)
from tffapps.fedstyle.cases import ABLATIONS
from tffapps.fedstyle.roles import ROLES
from tffapps.measured_networks import classifiers, inputs_of, png_bytes, style_steps


def costs(flags: Flags, pool: Pool) -> list[Cost]:
    common, settings, studies = flags[Common], flags[FedStyleSettings], flags[FedStyleStudySettings]
    cloaks, seeds = flags[FedStyleCloakSettings], len(common.seeds) * common.split_count
    study_seeds = len(common.seeds[: studies.study_seeds or None]) * common.split_count
    federation = data.federation(pool, settings.artists).pool
    methods = [method for method in common.methods if method in ROLES]
    starts = len(flags[FedStyleStartSettings].start_from)
    runs = [(method, federation, seeds * (1 if method == "local" else starts)) for method in methods]
    if "scalability" in studies.studies:
        wider = [data.federation(pool, artists).pool for artists in studies.scalability]
        runs += [(method, each, study_seeds) for each in wider for method in methods]
    if "ablation" in studies.studies and "fedstyle" in common.methods:
        runs.append(("fedstyle", federation, study_seeds * len(ABLATIONS)))
    if "heterogeneity" in studies.studies:
        times = study_seeds * (1 + len(studies.alphas))
        runs += [(method, federation, times) for method in ("fedavg", "fedstyle") if method in common.methods]
    passes = [(*_passes(method, each, flags), times) for method, each, times in runs]
    training = sum(trained * times for trained, _, _, times in passes)
    inference = sum(predicted * times for _, predicted, _, times in passes)
    checkpoints = sum(kept * times for _, _, kept, times in passes)
    found: list[Cost] = []
    inputs = inputs_of(flags, federation.table.label.nunique())
    if "cloaking" in studies.studies:
        pictures, trials = cloaks.cloak_artists * cloaks.cloak_pictures, study_seeds * len(studies.cloaked)
        training += trials * settings.rounds * flags[FedStyleClientSettings].epochs * pictures
        checkpoints += trials
        cloaked = study_seeds * sum(studies.cloaked) * pictures
        size = inputs.network.input_shape[1]
        cloak = style_steps(cloaks.vgg_width, size)
        found.append(Cost("cloaks", cloak, cloaked * cloaks.cloak_steps, bytes=png_bytes(cloaked, size)))
    return [
        *classifiers(inputs, training=training, inference=inference, runs=checkpoints, images=len(pool.table)),
        *found,
    ]


def _passes(method: str, pool: Pool, flags: Flags) -> tuple[int, int, int]:
    """Of one run: images in training steps, images predicted, copies of the weights that stay."""
    role, rounds = ROLES[method], flags[FedStyleSettings].rounds
    own, public, test = (len(pool.part(split)) for split in ("train", "public", "test"))
    clients = flags[FedStyleClientSettings].epochs * own
    server = flags[FedStylePublicSettings].public_epochs * public
    if role.alone:
        return rounds * server, rounds * test, 1
    trained = clients + (server if role.server else 0)
    once = (own + (public if role.server else 0)) if role.by_embeddings else 0
    models = 1 if role.method.sends_weights else len(pool.clients)  # each client's own is asked, and kept
    return rounds * trained, rounds * (once + models * test), models if models == 1 else models + 1
