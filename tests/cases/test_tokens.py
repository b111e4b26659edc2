"""Tokens are known by their digests alone."""

import hashlib

from placet.cases.tokens import TOKEN_LENGTH, digest_token, find_matching_digest
from placet.desk import random_values


def test_only_the_sha256_of_a_token_is_kept() -> None:
    assert digest_token("secret") == hashlib.sha256(b"secret").hexdigest()


def test_a_token_opens_its_own_digest_and_no_other() -> None:
    mine, other = random_values.generate_token(), random_values.generate_token()
    digests = (digest_token(other), digest_token(mine))
    assert find_matching_digest(mine, digests) == digest_token(mine)
    assert find_matching_digest(random_values.generate_token(), digests) is None
    assert find_matching_digest(mine, ()) is None


def test_a_digest_is_not_a_token() -> None:
    digest = digest_token(random_values.generate_token())
    assert find_matching_digest(digest, (digest,)) is None


def test_text_that_is_no_text_is_only_wrong() -> None:
    for odd in ("", "\ud800", "é" * 10_000, "\x00"):
        assert find_matching_digest(odd, (digest_token(random_values.generate_token()),)) is None


def test_minted_tokens_are_long_different_and_url_safe() -> None:
    tokens = {random_values.generate_token() for _ in range(100)}
    assert len(tokens) == 100
    assert {len(token) for token in tokens} == {TOKEN_LENGTH}
    assert all(token.replace("-", "").replace("_", "").isalnum() for token in tokens)
