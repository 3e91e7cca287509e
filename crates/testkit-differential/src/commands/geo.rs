//! Geo commands.
//!
//! Places are crowded around a few points, so that searches find some. Many are at the corners of a
//! grid, so that distances are equal and the order of equal ones is compared. Some scores are not
//! places, since another command has set them. The limits of the small encoding are lowered often.
//!
//! No polygon contains a pole: the middle of its corners may be off the map, and then the reference
//! reads uninitialized memory of its stack.

use super::rule::{Rule, fixed, rule};
use crate::compare::Compare::Exact;

pub const RULES: &[Rule] = &[
    rule(120, "GEOADD <geokey> (<lon> <lat> <zmember>)...", Exact),
    rule(60, "GEOADD <geokey> {[NX|XX] [CH]} (<lon> <lat> <zmember>)...", Exact),
    rule(
        40,
        "GEOADD <geokey> <lon> <lat> <zmember> <lon> <lat> <zmember> <lon> <lat> <zmember> <lon> <lat> <zmember> <lon> <lat> <zmember> <lon> <lat> <zmember>",
        Exact,
    ),
    rule(5, "GEOADD <geokey> {[NX] [XX] [CH] [<word>]} (<lon> <lat> <zmember>)... [<lon>]", Exact),
    rule(8, "GEOADD <key> <lon> <lat> <zmember>", Exact),
    rule(6, "ZADD <geokey> (1|1.5|3479099956230698|1e19|1e30|inf|-inf|-1|-5) <zmember>", Exact),
    rule(15, "ZREM <geokey> <zmember>...", Exact),
    rule(30, "GEOPOS <geokey> [<zmember>...]", Exact),
    rule(30, "GEOHASH <geokey> [<zmember>...]", Exact),
    rule(40, "GEODIST <geokey> <zmember> <zmember> [m|km|ft|mi|<word>]", Exact),
    rule(3, "GEODIST <geokey> <zmember> <zmember> km <word>", Exact),
    rule(
        60,
        "GEOSEARCH <geokey> {(FROMMEMBER <zmember>|FROMLONLAT <lon> <lat>) (BYRADIUS <radius> (m|km|ft|mi)|BYBOX <radius> <radius> (m|km|ft|mi)) [ASC|DESC] [COUNT <count> [ANY]] [WITHCOORD] [WITHDIST] [WITHHASH]}",
        Exact,
    ),
    rule(
        60,
        "GEOSEARCH <geokey> {FROMLONLAT <lon> <lat> BYRADIUS <radius> (km|mi) [ASC|DESC] [COUNT (1|2|3|5|9) [ANY]] [WITHCOORD] [WITHDIST] [WITHHASH]}",
        Exact,
    ),
    // Fixed: another rule has a wrong number of corners.
    fixed(
        40,
        "GEOSEARCH <geokey> {BYPOLYGON 3 (-10|13|13.35|2|-170) (-20|37|38.09|48) (20|14|13.37|3) (-30|35|38.1|39) (-5|13.36|170|2.5) (50|38.14|49|20) [ASC|DESC] [COUNT <count> [ANY]] [WITHCOORD] [WITHDIST] [WITHHASH]}",
        Exact,
    ),
    fixed(
        30,
        "GEOSEARCH <geokey> {BYPOLYGON 5 -10.5 -20.25 (20|60|14) (-30|38.09) 13.4 (38.05|30) (13.36|180) (50|38.14) (2.33|-122.5) (48|60|37) [ASC|DESC] [COUNT <count> [ANY]] [WITHCOORD] [WITHDIST] [WITHHASH]}",
        Exact,
    ),
    fixed(
        6,
        "GEOSEARCH <geokey> {[BYPOLYGON (0|2|3|4|-1|abc|2147483648|9999999999999) 1 2 3 4 (5|x|181) (6|91)] [FROMMEMBER <zmember>] [FROMLONLAT <lon> <lat>] [BYRADIUS <radius> (m|km)] [BYBOX <radius> <radius> km] [ASC|<word>] [ANY|COUNT <badint>] [WITHDIST] [STOREDIST]}",
        Exact,
    ),
    rule(
        8,
        "GEOSEARCH <geokey> {[FROMMEMBER <zmember>] [FROMMEMBER <zmember>] [FROMLONLAT <lon> <lat>] [BYRADIUS <radius> (m|km|<word>)] [BYRADIUS <radius> ft] [BYBOX <radius> <radius> (km|<word>)] [DESC] [ASC|<word>] [ANY] [COUNT <badint>] [WITHDIST]}",
        Exact,
    ),
    rule(
        25,
        "GEOSEARCHSTORE <geokey=a> <geokey> {(FROMMEMBER <zmember>|FROMLONLAT <lon> <lat>) (BYRADIUS <radius> (m|km|ft|mi)|BYBOX <radius> <radius> (m|km|ft|mi)) [ASC|DESC] [COUNT <count> [ANY]]} ; ZRANGE <a> 0 -1 WITHSCORES ; OBJECT ENCODING <a>",
        Exact,
    ),
    rule(
        25,
        "GEOSEARCHSTORE \"gd\" <geokey> {(FROMMEMBER <zmember>|FROMLONLAT <lon> <lat>) (BYRADIUS <radius> (m|km|ft|mi)|BYBOX <radius> <radius> (m|km|ft|mi)) [ASC|DESC] [COUNT <count> [ANY]] STOREDIST} ; ZRANGE \"gd\" 0 -1 WITHSCORES",
        Exact,
    ),
    fixed(
        10,
        "GEOSEARCHSTORE \"gd\" <geokey> {BYPOLYGON 4 10 (30|38.1) 20 (30|38.05) 15 50 1 (50|37) [COUNT <count> [ANY]] [STOREDIST]} ; ZRANGE \"gd\" 0 -1 WITHSCORES",
        Exact,
    ),
    rule(
        4,
        "GEOSEARCHSTORE <geokey> <geokey> {[FROMMEMBER <zmember>] [BYRADIUS <radius> km] [STOREDIST] [WITHDIST] [WITHCOORD] [STORE <geokey>] [<word>]}",
        Exact,
    ),
    rule(
        40,
        "GEORADIUS <geokey> <lon> <lat> <radius> (m|km|ft|mi) {[ASC|DESC] [COUNT <count> [ANY]] [WITHCOORD] [WITHDIST] [WITHHASH]}",
        Exact,
    ),
    rule(
        40,
        "GEORADIUS_RO <geokey> <lon> <lat> <radius> (m|km|ft|mi) {[ASC|DESC] [COUNT <count> [ANY]] [WITHCOORD] [WITHDIST] [WITHHASH]}",
        Exact,
    ),
    rule(
        40,
        "GEORADIUSBYMEMBER <geokey> <zmember> <radius> (m|km|ft|mi) {[ASC|DESC] [COUNT <count> [ANY]] [WITHCOORD] [WITHDIST] [WITHHASH]}",
        Exact,
    ),
    rule(
        40,
        "GEORADIUSBYMEMBER_RO <geokey> <zmember> <radius> (m|km|ft|mi) {[ASC|DESC] [COUNT <count> [ANY]] [WITHCOORD] [WITHDIST] [WITHHASH]}",
        Exact,
    ),
    rule(
        20,
        "GEORADIUS <geokey> <lon> <lat> <radius> km {[ASC|DESC] [COUNT <count> [ANY]] (STORE \"gd\"|STOREDIST \"gd\") [STORE \"ge\"|STOREDIST \"ge\"]} ; ZRANGE \"gd\" 0 -1 WITHSCORES ; ZRANGE \"ge\" 0 -1 WITHSCORES",
        Exact,
    ),
    rule(
        20,
        "GEORADIUSBYMEMBER <geokey> <zmember> <radius> km {[ASC|DESC] [COUNT <count> [ANY]] (STORE <geokey>|STOREDIST \"gd\")} ; ZRANGE \"gd\" 0 -1 WITHSCORES",
        Exact,
    ),
    rule(
        6,
        "GEORADIUS <geokey> <lon> <lat> <radius> (km|<word>) {[ASC|<word>] [COUNT <badint>] [ANY] [WITHDIST] [STORE \"gd\"|STOREDIST \"gd\"]}",
        Exact,
    ),
    rule(
        6,
        "GEORADIUS_RO <geokey> <lon> <lat> <radius> (km|<word>) {[ASC|<word>] [COUNT <badint>] [ANY] [WITHDIST] [STORE \"gd\"|STOREDIST \"gd\"]}",
        Exact,
    ),
    rule(
        6,
        "GEORADIUSBYMEMBER <geokey> <zmember> <radius> (km|<word>) {[ASC|<word>] [COUNT <badint>] [ANY] [WITHDIST] [STORE \"gd\"|STOREDIST \"gd\"]}",
        Exact,
    ),
    rule(
        6,
        "GEORADIUSBYMEMBER_RO <geokey> <zmember> <radius> (km|<word>) {[ASC|<word>] [COUNT <badint>] [ANY] [WITHDIST] [STORE \"gd\"|STOREDIST \"gd\"]}",
        Exact,
    ),
    rule(10, "ZRANGE <geokey> 0 -1 WITHSCORES", Exact),
    rule(10, "ZCARD <geokey>", Exact),
    rule(10, "OBJECT ENCODING <geokey>", Exact),
    fixed(3, "CONFIG SET zset-max-listpack-entries (0|4|16|128)", Exact),
    fixed(3, "CONFIG SET zset-max-listpack-value (4|64)", Exact),
    rule(2, "DEL <geokey>", Exact),
    rule(
        3,
        "PEXPIRE <geokey=a> <ms> ; GEOADD <a> <lon> <lat> <zmember> ; PTTL <a> ; GEOSEARCHSTORE <a> <a> FROMLONLAT 13.36 38.1 BYRADIUS 100 km ; PTTL <a>",
        Exact,
    ),
    rule(
        1,
        "PEXPIRE <geokey=a> 1 ; @sleep ; GEOPOS <a> m1 ; GEOSEARCH <a> FROMMEMBER m1 BYRADIUS 1 m ; GEOADD <a> <lon> <lat> <zmember> ; PTTL <a>",
        Exact,
    ),
    rule(4, "SET <geokey> v", Exact),
    rule(4, "DEBUG DIGEST-VALUE <geokey>...", Exact),
];
