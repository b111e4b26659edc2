"""Keccak-256 with the padding of before SHA-3, which World ID uses for signals. Not for secrets."""

_MASK = (1 << 64) - 1
_RATE = 136
_ROTATIONS = (
    (0, 36, 3, 41, 18),
    (1, 44, 10, 45, 2),
    (62, 6, 43, 15, 61),
    (28, 55, 25, 21, 56),
    (27, 20, 39, 8, 14),
)


def _list_round_constants() -> list[int]:
    constants, register = [], 1
    for _ in range(24):
        constant = 0
        for power in range(7):
            if register & 1:
                constant |= 1 << ((1 << power) - 1)
            register = (register << 1) ^ (0x171 if register & 0x80 else 0)
        constants.append(constant)
    return constants


_CONSTANTS = _list_round_constants()


def keccak_256(data: bytes) -> bytes:
    """Return the digest."""
    padded = bytearray(data + b"\x01" + b"\x00" * (_RATE - 1 - len(data) % _RATE))
    padded[-1] |= 0x80
    lanes = [[0] * 5 for _ in range(5)]
    for start in range(0, len(padded), _RATE):
        for index in range(_RATE // 8):
            word = padded[start + 8 * index : start + 8 * index + 8]
            lanes[index % 5][index // 5] ^= int.from_bytes(word, "little")
        lanes = _permute(lanes)
    return b"".join(lanes[index % 5][index // 5].to_bytes(8, "little") for index in range(4))


def _permute(lanes: list[list[int]]) -> list[list[int]]:
    for constant in _CONSTANTS:
        parity = [column[0] ^ column[1] ^ column[2] ^ column[3] ^ column[4] for column in lanes]
        mixed = [parity[x - 1] ^ _rotate(parity[(x + 1) % 5], 1) for x in range(5)]
        moved = [[0] * 5 for _ in range(5)]
        for x in range(5):
            for y in range(5):
                moved[y][(2 * x + 3 * y) % 5] = _rotate(lanes[x][y] ^ mixed[x], _ROTATIONS[x][y])
        lanes = [
            [moved[x][y] ^ (~moved[(x + 1) % 5][y] & moved[(x + 2) % 5][y]) for y in range(5)]
            for x in range(5)
        ]
        lanes[0][0] ^= constant
    return lanes


def _rotate(word: int, bits: int) -> int:
    return ((word << bits) | (word >> (64 - bits))) & _MASK
