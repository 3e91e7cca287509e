//! The commands on small and large sorted sets. Expected replies were recorded from the reference
//! server, unless the test computes them.

use crate::testing::Bench;
use weft_base::rng::Rng;

/// Runs the same lines on packed sets and on sets that are large from the start.
fn both(lines: &[(&str, &str)]) {
    for entries in [128, 0] {
        let mut bench = Bench::new(1000);
        bench.settings.limits.zset_entries = entries;
        bench.run("geoadd g 13.361389 38.115556 Palermo 15.087269 37.502669 Catania");
        bench.expect(lines);
    }
}

#[test]
fn adding() {
    both(&[
        ("geoadd g 13 38 Palermo 12 37 new", ":1|"),
        ("geoadd g ch xx 14 38 Palermo 1 1 newer", ":1|"),
        ("geoadd g nx 0 0 Palermo 1 1 newer", ":1|"),
        ("geoadd g nx xx 1 1000 m", "-ERR syntax error|"),
        ("geoadd g ch ch ch", "-ERR syntax error|"),
        ("geoadd g 1 1 m x 1 n", "-ERR value is not a valid float|"),
        ("geoadd g 1 86 m", "-ERR invalid longitude,latitude pair 1.000000,86.000000|"),
        ("geoadd g inf 1 m", "-ERR invalid longitude,latitude pair inf,1.000000|"),
        ("zscore g m", "$-1|"),
        ("geoadd g 180 85.05112878 edge", ":1|"),
        ("zscore g edge", "$17|13510798882111488|"),
    ]);
}

#[test]
fn reading() {
    both(&[
        ("geopos g Palermo x", "*2|*2|$20|13.36138933897018433|$20|38.11555639549629859|*-1|"),
        ("geopos none x", "*1|*-1|"),
        ("geohash g Palermo x Catania", "*3|$11|sqc8b49rny0|$-1|$11|sqdtr74hyu0|"),
        ("geodist g Palermo Catania", "$11|166274.1516|"),
        ("geodist g Palermo Catania KM", "$8|166.2742|"),
        ("geodist g Palermo Palermo", "$6|0.0000|"),
        ("geodist g Palermo x", "$-1|"),
        ("geodist none a b x", "-ERR unsupported unit provided. please use M, KM, FT, MI|"),
        ("geodist g Palermo Catania km m", "-ERR syntax error|"),
    ]);
}

#[test]
fn searching() {
    both(&[
        ("geosearch g fromlonlat 15 37 byradius 200 km desc", "*2|$7|Palermo|$7|Catania|"),
        (
            "geosearch g fromlonlat 15 37 bybox 400 400 km asc count 1 withdist withhash",
            "*1|*3|$7|Catania|$7|56.4413|:3479447370796909|",
        ),
        (
            "geosearch g bypolygon 3 10 30 20 30 15 50 asc withdist",
            "*2|*2|$7|Catania|$10|88221.9747|*2|$7|Palermo|$11|212847.3607|",
        ),
        ("georadius g 15 37 100 km", "*1|$7|Catania|"),
        ("georadiusbymember_ro g Palermo 0 m", "*1|$7|Palermo|"),
        ("georadiusbymember g x y z", "-ERR member x does not exist|"),
        ("georadiusbymember none x y z", "*0|"),
        ("georadius_ro g 15 37 5 km store d", "-ERR syntax error|"),
        ("georadius g 15 37 -5 km", "-ERR radius cannot be negative|"),
        ("georadius g 15 37 5 km any", "-ERR the ANY argument requires COUNT argument|"),
        (
            "geosearch g byradius 1 km asc asc asc",
            "-ERR exactly one of FROMMEMBER or FROMLONLAT can be specified for geosearch|",
        ),
        ("geosearch g bypolygon 3 1 1 2 2 3 3 fromlonlat 1 1", "-ERR syntax error|"),
        (
            "geosearch g bypolygon 3 1 1 2 2 3",
            "-ERR GEOSEARCH BYPOLYGON must have at least 3 vertices|",
        ),
    ]);
}

#[test]
fn storing() {
    both(&[
        ("georadius g 15 37 200 km store d storedist e", ":2|"),
        ("exists d", ":0|"),
        (
            "zrange e 0 -1 withscores",
            "*4|$7|Catania|$16|56.4412578701582|$7|Palermo|$18|190.44242984775784|",
        ),
        ("geosearchstore e g fromlonlat 15 37 byradius 200 km asc count 1", ":1|"),
        ("zrange e 0 -1 withscores", "*2|$7|Catania|$16|3479447370796909|"),
        ("geosearchstore e g fromlonlat 0 0 byradius 1 km", ":0|"),
        ("exists e", ":0|"),
        ("geosearchstore g none fromlonlat 0 0 byradius 1 km", ":0|"),
        ("exists g", ":0|"),
    ]);
}

/// Every search finds all members, and COUNT returns the nearest.
#[test]
fn many_close_members_are_found() {
    let mut bench = Bench::new(1000);
    let mut rng = Rng::new(2);
    for at in 0..900 {
        let (lon, lat) = (2.0 + rng.next_f64() / 10.0, 48.0 + rng.next_f64() / 10.0);
        bench.run(&format!("geoadd g {lon} {lat} m{at}"));
    }
    for search in [
        "geosearch g fromlonlat 2.05 48.05 byradius 20 km",
        "geosearch g fromlonlat 2.05 48.05 bybox 30 30 km",
        "geosearch g bypolygon 4 1.9 47.9 2.2 47.9 2.2 48.2 1.9 48.2",
        "georadius g 2.05 48.05 20 km",
    ] {
        assert!(bench.run(search).starts_with("*900|"), "{search}");
        let all = bench.run(&format!("{search} asc"));
        let few = bench.run(&format!("{search} count 10"));
        let members = all.strip_prefix("*900|").expect("all");
        assert!(members.starts_with(few.strip_prefix("*10|").expect("ten")), "{search}");
        assert!(bench.run(&format!("{search} count 7 any")).starts_with("*7|"), "{search}");
    }
}

#[test]
fn large_searches_are_weighed() {
    let mut bench = Bench::new(1000);
    for at in 0..3000 {
        bench.run(&format!("geoadd g 2.{at:04} 48 m{at}"));
    }
    let words = |line: &'static str| line.split(' ').map(str::as_bytes).collect::<Vec<_>>();
    for (line, too_long) in [
        ("GEOSEARCH g FROMLONLAT 2.1 48 BYRADIUS 100 km", true),
        ("GEOSEARCH g FROMLONLAT 2.1 48 BYRADIUS 100 m", false),
        ("GEOSEARCH g FROMLONLAT 22 48 BYRADIUS 100 km", false),
        ("GEOSEARCHSTORE d g FROMLONLAT 2.1 48 BYBOX 100 100 km", true),
        ("GEORADIUS g 2.1 48 100 km STORE d", true),
        ("GEORADIUSBYMEMBER g m0 100 km", true),
    ] {
        assert_eq!(bench.needs_slow_lane(&words(line)), too_long, "{line}");
    }
    assert_eq!(bench.run("EXISTS d"), ":0|");
}

#[test]
fn destinations_are_keys() {
    for (line, destination) in [
        ("georadius g 1 2 3 km store d storedist e", Some(9)),
        ("georadius g 1 2 3 km count store store d", Some(8)),
        ("georadius g 1 2 3 km store", None),
        ("georadiusbymember g m 3 km storedist d", Some(6)),
    ] {
        let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        assert_eq!(weft_command_spec::key_options::geo_destination(&args), destination, "{line}");
    }
}
