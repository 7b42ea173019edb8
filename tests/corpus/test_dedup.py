import hashlib

from lingraft.corpus.cleaning.dedup import hashes


def test_the_hash_is_that_of_blake2b_on_every_machine():
    digest = hashlib.blake2b("한국어".encode(), digest_size=8).digest()
    assert hashes(["한국어"]).tolist() == [int.from_bytes(digest, "little")]
