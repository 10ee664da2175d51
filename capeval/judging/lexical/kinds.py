"""Kinds of things, and phrases of two words.

`KINDS` holds "kind: members": who names a member has named its kind. `PHRASES` holds two
neighbouring words and the meanings that they have together. General English, written for this
judge.
"""

from __future__ import annotations

KINDS = """
person: man woman boy girl child baby couple mother father police soldier doctor athlete player
person: chef singer dancer teacher student worker driver waiter nurse host presenter rider actor
man: father boy
woman: mother girl
child: boy girl baby
crowd: people
animal: dog cat horse bird cow sheep elephant lion tiger bear fish monkey rabbit duck deer goat
dog: puppy
cat: kitten
bird: eagle pigeon seagull parrot owl
vehicle: car truck bus van motorcycle taxi train tractor
car: taxi
boat: ship yacht canoe kayak
building: house tower shop church castle
clothes: shirt dress coat jacket sweater trousers jeans uniform suit vest skirt hoodie
hat: cap
plant: tree flower grass greenery
greenery: tree grass plant forest
furniture: chair table sofa desk bed cabinet
fruit: apple banana strawberry grape
instrument: guitar piano violin drum flute
move: walk run crawl drive ride fly swim go pan tilt dolly shift
go: walk run
talk: say
indoors: room kitchen bedroom office corridor bathroom
outdoors: street road beach forest field mountain sidewalk
hold: carry
"""

PHRASES = """
close up = closeup
zoom in = zoom zoomin
zoom into = zoom zoomin
zoom out = zoom zoomout
push in = zoom zoomin
pull back = zoom zoomout
pull out = zoom zoomout
pull away = zoom zoomout
move closer = approach zoomin
come closer = approach
sit down = sit
stand up = standup
get up = standup
pick up = pick
put down = put
set down = put
lie down = lie
hold up = raise
lift up = raise
put on = puton
take off = takeoff
take place = scene
turn on = turnon
turn off = turnoff
walk in = walk enter
walk into = walk enter
walk out = walk exit
come out = exit appear
go out = exit
go into = enter
come in = enter
get in = enter
get into = enter
get out = exit
climb into = climb enter
step out = exit
look up = look upward
look down = look downward
look back = look backward
t shirt = shirt
close to = near
next to = beside
cell phone = phone
mobile phone = phone
bird eye = aerial
drone shot = aerial
slow motion = slowmotion
remain still = static
stay still = static
keep still = static
hold still = static
stand still = stand static
sit still = sit static
cut to = cut
shift to = cut
change to = cut
fade to = cut fade
fade into = cut fade
cut back = cut
switch to = cut
next shot = cut
counter clockwise = counterclockwise
anti clockwise = counterclockwise
"""
