"""Meanings that exclude each other: opposites, camera moves, colours, numbers, who is who.

General English, written for this judge. `OPPOSITES` and `CAMERA_OPPOSITES` hold poles separated
by "|": a word of one pole excludes the words of the others.
"""

from __future__ import annotations

import math

OPPOSITES = """
left | right
up upward ascend rise | down downward descend
forward | backward
toward approach | away
clockwise | counterclockwise
into enter | exit
enter | exit
arrive | exit
open | close
indoors | outdoors
inside | outside
day morning sunny | night
morning | evening
sunny | rain cloudy
summer | winter snow
young | old
sit | stand
sit stand | lie
standup | sit
stand | kneel crouch
big | small
tall long | short
fast quickly | slowly slow
bright | dark
happy smile laugh | sad cry angry
appear | disappear
begin | end
pick raise | put drop
raise | lower
push | pull
turnon | turnoff
puton | takeoff
empty | full
wet | dry
clean | dirty
hot | cold
clear | blurry
front | behind
above | below
first | last
thin slim | fat
wide | narrow
sleep | awake
walk | run
near closeup | distance
smile | frown
straight | curly
catch | throw
win | lose
lock | unlock
"""

CAMERA_OPPOSITES = """
zoomin | zoomout
static | pan tilt zoom dolly track rotate move follow
pan | tilt
pan tilt | zoom
closeup | wide aerial
slowmotion | timelapse
low | high
"""

# Each word may stand for several of these; two words exclude each other when they share none.
_BASIC = "black white grey red orange yellow green blue purple pink brown"
_SHADES = """
black: black
white: white
gray grey: grey
silver: grey white
ivory: white
cream beige tan: white brown yellow
khaki: brown green yellow
red crimson scarlet ruby: red
maroon burgundy: red purple brown
orange amber: orange
coral peach: orange pink red
yellow lemon: yellow
gold golden: yellow orange brown
blonde blond: yellow
ginger auburn: red orange brown
green emerald lime: green
olive: green brown
teal turquoise cyan aqua: green blue
blue navy azure indigo: blue
purple violet lavender: purple
lilac mauve: purple pink
magenta fuchsia: purple pink
pink rose: pink
brown chestnut chocolate bronze tawny: brown
"""


def _colours() -> dict[str, int]:
    bits = {name: 1 << place for place, name in enumerate(_BASIC.split())}
    shades = {}
    for line in _SHADES.strip().splitlines():
        words, _, bases = line.partition(":")
        for word in words.split():
            shades[word] = sum(bits[base] for base in bases.split())
    return shades


COLOURS = _colours()
"""Word -> bits of the basic colours that it may stand for."""

_MANY = (3.0, math.inf)
NUMBERS: dict[str, tuple[float, float]] = {
    word: (float(n), float(n))
    for n, word in enumerate(
        ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
    )
} | {
    "a": (1, 1),
    "an": (1, 1),
    "single": (1, 1),
    "lone": (1, 1),
    "pair": (2, 2),
    "couple": (2, 3),
    "both": (2, 2),
    "twin": (2, 2),
    "few": (2, 8),
    "several": (3, 20),
    "multiple": (2, math.inf),
    "many": _MANY,
    "numerous": _MANY,
    "dozen": (8, math.inf),
    "dozens": (12, math.inf),
    "hundreds": (50, math.inf),
    "countless": _MANY,
}
"""Word -> the least and the most that it may stand for."""

WEAK_NUMBERS = frozenset({"a", "an", "one"})

_MALE = "man boy father gentleman king husband son brother"
_FEMALE = "woman girl mother queen wife daughter sister"
_EITHER = """
person child baby player police soldier doctor athlete couple crowd chef singer dancer teacher
student worker driver host presenter rider actor waiter nurse group
"""
_OTHERS = """
dog cat horse bird cow sheep elephant lion tiger bear fish monkey rabbit car truck bus motorcycle
bike train boat plane
"""


def _actors() -> dict[str, int]:
    people = ((_MALE, 1), (_FEMALE, 2), (_EITHER, 3))
    found = {word: bits for words, bits in people for word in words.split()}
    found |= {word: 1 << place for place, word in enumerate(_OTHERS.split(), 2)}
    # Films speak of animals, and captions of ships, as of people.
    others = sum(bits for bits in found.values() if bits > 3)
    return found | {"he": 1 | others, "she": 2 | others, "they": 3 | others, "it": others}


ACTORS = _actors()
"""Who or what acts -> bits: 1 male, 2 female, one for each other kind. Without a common bit, two
are not the same one."""
