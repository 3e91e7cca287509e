//! Replies of SORT.

use crate::testing::Bench;

#[test]
fn orders_windows_and_stores() {
    Bench::new(1000).expect(&[
        ("RPUSH l 3 1 10 2", ":4|"),
        ("SORT l", "*4|$1|1|$1|2|$1|3|$2|10|"),
        ("SORT l ALPHA DESC LIMIT 1 2", "*2|$1|2|$2|10|"),
        ("SORT l BY nosort DESC LIMIT 0 2", "*2|$1|2|$2|10|"),
        ("SORT l LIMIT -1 -5", "*4|$1|1|$1|2|$1|3|$2|10|"),
        ("MSET w_1 9 w_2 8 w_3 7 w_10 6", "+OK|"),
        ("SORT l BY w_* GET # GET w_* LIMIT 0 1", "*2|$2|10|$1|6|"),
        ("SORT l BY w_* STORE out", ":4|"),
        ("LRANGE out 0 -1", "*4|$2|10|$1|3|$1|2|$1|1|"),
        ("HSET h_1 f 5", ":1|"),
        ("SORT l GET h_*->f LIMIT 0 2", "*2|$1|5|$-1|"),
        ("SORT none STORE out", ":0|"),
        ("EXISTS out", ":0|"),
        ("RPUSH l x", ":5|"),
        ("SORT l", "-ERR One or more scores can't be converted into double|"),
        ("SORT_RO l STORE out", "-ERR syntax error|"),
        ("SORT w_1", "-WRONGTYPE Operation against a key holding the wrong kind of value|"),
    ]);
}

#[test]
fn destinations_are_found() {
    let at = |line: &str| {
        let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        weft_command_spec::key_options::sort_destination(&args)
    };
    for (line, want) in [
        ("SORT a", None),
        ("SORT a STORE", None),
        ("SORT a store d", Some(3)),
        ("SORT a STORE d STORE e", Some(5)),
        ("SORT a STORE STORE d", Some(4)),
        ("SORT a GET store STORE d", Some(5)),
        ("SORT a BY store GET d", None),
        ("SORT a LIMIT store 1 STORE d", Some(6)),
        ("SORT a LIMIT", None),
    ] {
        assert_eq!(at(line), want, "{line}");
    }
}

#[test]
fn patterns_are_denied_before_later_errors() {
    let check = |line: &str| {
        let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        super::check_patterns(&args).map_err(|e| e.0[4..6].to_vec())
    };
    for line in [
        "sort k",
        "sort k by nosort",
        "sort k by nosort alpha desc limit 0 1 store d",
        "sort k limit a b by w*",
        "sort k nosuch get #",
        "sort k by",
        "sort k get",
        "sort k store get",
    ] {
        assert_eq!(check(line), Ok(()), "{line}");
    }
    for line in ["sort k by w*", "sort k by w* nosuch", "sort k limit 0 1 by w* get #"] {
        assert_eq!(check(line), Err(b"BY".to_vec()), "{line}");
    }
    for line in ["sort k get #", "sort_ro k by nosort get x", "sort k asc get x by w*"] {
        assert_eq!(check(line), Err(b"GE".to_vec()), "{line}");
    }
}
