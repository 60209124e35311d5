"""What a coordinator or a member could try in a secure sum, and who refuses it."""

import numpy as np
import pytest

from tests.secure_sums.conftest import NAMES, Sum, drawn
from tffapps.secure_sums import masks
from tffapps.secure_sums.agreement import Refused
from tffapps.secure_sums.collector import CheatedBy
from tffapps.secure_sums.identity import Identity
from tffapps.secure_sums.member import KEY, SEED, Member
from tffapps.secure_sums.spoken import Advert


@pytest.fixture
def sum_(federation):
    return Sum(federation)


@pytest.fixture
def masked(sum_):
    return sum_.masked(drawn(0, 5))


def test_a_live_member_that_is_called_dropped_refuses(sum_, masked):
    with pytest.raises(Refused, match="b is called dropped out, and is here"):
        sum_.members["b"].confirm(["a", "c", "d"])


def test_two_lists_never_both_have_enough_signatures(sum_, masked):
    """The coordinator tells some that b dropped out and others that it is there, to get both kinds of b's shares."""
    everyone, without = list(NAMES), ["a", "c", "d"]
    first = {name: sum_.members[name].confirm(everyone) for name in ("a", "b")}
    second = {name: sum_.members[name].confirm(without) for name in ("c", "d")}
    with pytest.raises(Refused, match="a: a signature that is not its own"):
        sum_.members["c"].unmask({**second, "a": first["a"]})
    with pytest.raises(Refused, match="only 2 members say who sent numbers, 3 are needed"):
        sum_.members["a"].unmask(first)
    with pytest.raises(Refused, match="asked to confirm in secure sum 1, where unmask comes next"):
        sum_.members["d"].confirm(everyone)
    with pytest.raises(Refused, match="a table with other names"):
        sum_.members["d"].unmask({**second, "b": first["b"]})


def test_of_one_member_there_is_one_kind_of_share(sum_):
    masked = sum_.masked(drawn(0, 5), dropped=("b",))
    shares = sum_.shares(sum_.confirmed(masked))
    for kinds in shares.values():
        assert set(kinds[KEY]) == {"b"} and set(kinds[SEED]) == {"a", "c", "d"}
    with pytest.raises(Refused, match="where nothing comes next"):
        sum_.members["a"].unmask({})


def test_a_member_called_dropped_keeps_its_own_mask(sum_, masked):
    """All the others believe it: the coordinator takes off b's pairwise masks, and still has nothing of b."""
    told = ["a", "c", "d"]
    sum_.collector.survivors(told)
    signatures = {name: sum_.members[name].confirm(told) for name in told}
    shares = {name: sum_.members[name].unmask(signatures) for name in told}
    collector, values = sum_.collector, drawn(0, 5)
    others = sum(masked[name] for name in told) + collector.correction(shares)
    np.testing.assert_array_equal(others, sum(values[name] for name in told))
    recovered = {index + 1: bytes.fromhex(shares[name][KEY]["b"]) for index, name in enumerate(NAMES) if name in told}
    key = collector._key("b", recovered)
    found = masked["b"].view(np.uint64)
    for other in told:
        found = found - masks.pair_mask(key, "b", collector._adverts[other].mask_key, other, sum_.agreement)
    assert (found != values["b"].view(np.uint64)).all() and (found >> np.uint64(50)).any()
    own = masks.own_mask(sum_.members["b"]._seed, "b", sum_.agreement)
    np.testing.assert_array_equal(found - own, values["b"].view(np.uint64))  # which is all that was left


def test_a_wrong_share_is_found_and_the_others_are_enough(sum_, masked):
    shares = sum_.shares(sum_.confirmed(masked))
    good, bad = shares["c"], shares["d"][SEED]["a"]
    shares["c"] = {**good, SEED: {**good[SEED], "a": bad}}
    with pytest.raises(CheatedBy, match="c: a wrong share of a's own mask") as found:
        sum_.collector.correction(shares)
    del shares[found.value.name]
    np.testing.assert_array_equal(sum_.total(masked, shares), sum(drawn(0, 5).values()))


def test_who_deals_shares_of_something_else_is_named(federation):
    sum_ = Sum(federation)
    sum_.members["b"]._seed = bytes(32)
    told = sum_.told
    sum_.members["b"]._seed = bytes([1]) * 32  # what it masks with
    sum_.collector._dealt["b"] = sum_.collector._dealt["b"].__class__(
        sum_.collector._dealt["b"].shares, sum_.collector._dealt["b"].commitments, b"what it did not deal"
    )
    masked = {name: member.mask(told[name], drawn(0, 5)[name]) for name, member in sum_.members.items()}
    with pytest.raises(CheatedBy, match="b: dealt shares of something else than its own mask"):
        sum_.total(masked, sum_.shares(sum_.confirmed(masked)))


def test_a_share_that_was_changed_on_its_way(federation):
    sum_ = Sum(federation)
    told = sum_.told["a"]
    share, *commitments = told["b"]
    for changed, why in (
        (["00" + share[2:], *commitments], "b: a share that was changed on its way"),
        ([share, commitments[1], commitments[0]], "b: a share other than it has committed itself to"),
        ([sum_.told["c"]["b"][0], *commitments], "b: a share that was changed on its way"),
    ):
        sum_.members["a"]._next = "mask"
        with pytest.raises(Refused, match=why):
            sum_.members["a"].mask({**told, "b": changed}, np.zeros(5, np.int64))


def forged(federation, sum_, change):
    """The keys of b as somebody else would have them."""
    member = Member(federation.identities["b"], sum_.agreement, federation.verdict)
    advert = Advert.checked(member.advertise(), "b", sum_.agreement, federation.verdict)
    return change(federation, sum_, advert)


def with_own_keys(federation, sum_, advert):
    keys = dict(cipher_key="11" * 32, mask_key="22" * 32)
    return {**advert.to_fields(), **keys}


def of_the_coordinator(federation, sum_, advert):
    spy = federation.identities["coordinator"]
    return Advert.signed(Identity("b", spy.chain, spy.key), sum_.agreement, b"1" * 32, b"2" * 32).to_fields()


def of_another_sum(federation, sum_, advert):
    return Member(federation.identities["b"], Sum(federation, number=2).agreement, federation.verdict).advertise()


def of_another_member(federation, sum_, advert):
    spy = federation.identities["c"]
    return Advert.signed(Identity("b", spy.chain, spy.key), sum_.agreement, b"1" * 32, b"2" * 32).to_fields()


def of_another_size(federation, sum_, advert):
    return {**advert.to_fields(), "mask_key": "11"}


FORGERIES = {
    with_own_keys: "b: a signature that is not its own",
    of_the_coordinator: "b: its certificate is not made for a site",
    of_another_sum: "b: a signature that is not its own",
    of_another_member: "b: its certificate is for c",
    of_another_size: "b: keys of another length",
}


@pytest.mark.parametrize("change", FORGERIES, ids=lambda change: change.__name__)
def test_keys_that_a_coordinator_makes_up_are_refused(federation, change):
    sum_ = Sum(federation)
    adverts = {**sum_.adverts, "b": forged(federation, sum_, change)}
    with pytest.raises(Refused, match=FORGERIES[change]):
        sum_.members["a"].deal(adverts)
    with pytest.raises(CheatedBy, match=FORGERIES[change]):
        sum_.collector.adverts(adverts)


def test_a_member_takes_part_as_itself_alone(federation):
    sum_ = Sum(federation)
    with pytest.raises(Refused, match="without d"):
        Member(federation.identities["d"], Sum(federation, names=("a", "b", "c")).agreement, federation.verdict)
    with pytest.raises(Refused, match="not the keys of every member"):
        sum_.members["a"].deal({name: sum_.adverts[name] for name in "abc"})
    other = Member(federation.identities["b"], sum_.agreement, federation.verdict).advertise()
    with pytest.raises(Refused, match="b: keys that are not its own"):
        sum_.members["b"].deal({**sum_.adverts, "b": other})
