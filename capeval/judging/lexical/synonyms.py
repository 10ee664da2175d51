"""Words of video description that stand for each other.

One meaning a line; its first word names it. A word after "=" stands for itself alone, without its
other forms. General English, written for this judge; a word of several everyday meanings stands
where descriptions use it most.
"""

from __future__ import annotations

SYNONYMS = """
man men guy male gentleman fellow
woman lady female
boy lad
child kid toddler youngster
baby infant newborn
person individual human figure somebody someone
couple pair
crowd audience spectator onlooker bystander
mother mom mum
father dad
police policeman policewoman officer cop
soldier troop trooper
doctor physician
athlete sportsman sportswoman
car automobile sedan suv
bike bicycle
motorcycle motorbike
boat vessel
plane airplane aircraft jet
truck lorry
train locomotive
road street roadway highway avenue lane
sidewalk pavement footpath walkway path pathway trail
house home cottage
tower skyscraper
shop store
field meadow grassland
forest wood woodland
hill hillside slope
mountain peak
sea ocean
lake pond
river stream creek
beach shore seashore coast
stone rock boulder
grass lawn
plant shrub bush
greenery vegetation foliage
flower blossom
sun sunlight sunshine
rain rainfall
fire flame blaze
smoke =fumes
sofa couch
chair seat
cup mug
plate dish
bag purse handbag
backpack rucksack
suitcase luggage
box carton crate
phone telephone smartphone cellphone mobile
computer laptop
television monitor
sign signboard billboard
logo emblem
text caption subtitle lettering
lamp lantern
light lighting illumination
knife blade
gun pistol rifle firearm weapon
glasses eyeglass spectacles
clothes attire outfit garment apparel costume
shirt tshirt
dress gown
jacket blazer
sweater pullover jumper
trousers pants slacks
jeans denim
shoe sneaker footwear
necktie tie
hair hairstyle
beard goatee
hand palm
room chamber
corridor hallway
stair staircase stairway
door doorway
floor ground
roof rooftop
fence railing
stage platform
food meal
walk stroll stride saunter amble wander
run sprint dash jog rush race
jump leap hop
go proceed travel
look gaze glance stare peer watch observe
smile grin beam
laugh giggle chuckle
cry weep sob
talk speak chat converse conversation discuss
shout yell scream
say tell
hold grip grasp clutch
wear =dressed clad
grab seize snatch
pick lift
put place
throw toss hurl fling
hit strike punch beat
push shove
pull drag tug
turn rotate spin twirl revolve
stop halt pause
sit =seated
stand upright
lie recline
crouch squat
bend stoop
fall collapse tumble
float hover drift
eat chew
drink sip
stir mix
slice chop
close shut
exit leave depart
appear emerge
disappear vanish
chase pursue
fight brawl combat
hug embrace
clap applaud applause
gesture gesticulate
wash rinse
clean wipe
draw sketch
use utilize
gather assemble
surround encircle
display exhibit
begin start commence
end conclude finish
continue keep
big large huge giant enormous massive
small little tiny
tall high
old elderly aged
young youthful
beautiful pretty
happy joyful cheerful delighted pleased
sad unhappy sorrowful
angry furious
surprised shocked astonished startled
scared afraid frightened terrified
serious solemn stern
calm peaceful serene tranquil
fast quick rapid swift
bright brilliant
dark dim
blurry blurred blur
empty vacant deserted
full crowded packed
wet damp soaked
round circular
ornate decorated decorative
wooden timber
metal metallic
forward ahead
toward towards
counterclockwise anticlockwise
indoors indoor interior
outdoors outdoor exterior
beside adjacent
near nearby
above overhead
below beneath underneath
center centre middle
background backdrop
distance far
cut switch transition shift
static stationary still fixed motionless
quickly rapidly swiftly hurriedly
slowly gradually
night nighttime
day daytime daylight
evening dusk sunset
morning dawn sunrise
city town urban
village rural countryside
snow snowy
cloudy overcast
"""
