"""Sums of whole numbers of which the coordinator learns the total alone (Bonawitz et al., CCS 2017).

Every member adds masks to its numbers, modulo 2^64: one for each other member, agreed between the two and cancelled by
the other's, and one of its own. All messages go through the coordinator; members know each other by certificates.

     member                                      coordinator
     1 two fresh X25519 keys, signed ──────────► all keys to all
     2 shares of its mask key and of its own
       mask's seed, encrypted to each member ──► each member its shares
     3 numbers + masks ────────────────────────► the sum, still masked; who sent nothing has dropped out
     4 a signed list of those who sent ────────► all signatures to all
     5 of who sent: shares of its own mask's
       seed; of who dropped: of its mask key ──► masks are recovered and taken off the sum

A member signs one list for a sum, itself among them, and answers step 5 only to a list that `threshold` members have
signed. Two lists of that many signatures share a member, so nobody's shares of both kinds come together: a member that
is called dropped though it sent keeps its own mask. Keys are fresh for every sum, the sum's number is in every
derivation, and no number is answered twice.

`Member` is a site's part, `Collector` the coordinator's; both are plain state machines without a network.
"""
