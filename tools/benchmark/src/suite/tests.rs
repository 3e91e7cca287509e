//! Tests of the suite: the requests, byte for byte.

use super::*;
use crate::options::parse;

fn with<T>(line: &str, look: impl FnOnce(&Suite) -> T) -> T {
    let options = parse(line.split_whitespace().map(Into::into)).expect("a right command line");
    look(&Suite::new(&options))
}

fn sent(test: &Test) -> String {
    String::from_utf8_lossy(test.kinds[0].variants[0].bytes()).replace("\r\n", " ")
}

fn titles(line: &str) -> Vec<String> {
    with(line, |suite| suite.selected().into_iter().map(|test| test.title).collect())
}

#[test]
fn names_select_tests() {
    assert_eq!(titles("").len(), TESTS.len());
    assert_eq!(titles("-t ping"), ["PING_INLINE", "PING_MBULK"]);
    assert_eq!(titles("-t GET,set"), ["SET", "GET"]);
    assert_eq!(
        titles("-t lrange_300"),
        ["LPUSH (needed to benchmark LRANGE)", "LRANGE_300 (first 300 elements)"]
    );
    let names = |text: &str| text.split(',').map(String::from).collect::<Vec<String>>();
    assert_eq!(unknown(&names("get,nosuch")).map(String::as_str), Some("nosuch"));
    assert_eq!(unknown(&names("get,lrange_prepare")).map(String::as_str), Some("lrange_prepare"));
    let all = names(&list_of_tests().split_whitespace().collect::<Vec<_>>().join(","));
    assert_eq!((unknown(&all), all.len()), (None, 25));
}

#[test]
fn requests_are_those_of_the_reference() {
    let of = |line: &str, name: &str| with(line, |suite| sent(&suite.named(name)));
    assert_eq!(of("", "ping_inline"), "PING ");
    assert_eq!(of("-r 5", "get"), "*2 $3 GET $16 key:__rand_int__ ");
    assert_eq!(of("--cluster", "incr"), "*2 $4 INCR $26 counter:{tag}:__rand_int__ ");
    assert_eq!(of("", "zadd"), "*4 $4 ZADD $6 myzset $1 0 $20 element:__rand_1st__ ");
    assert_eq!(
        of("-r 5", "zadd"),
        "*4 $4 ZADD $6 myzset $12 __rand_int__ $20 element:__rand_1st__ "
    );
    assert!(of("-d 5", "set").contains(" $5 "));
    assert!(of("", "mset").starts_with("*21 $4 MSET $16 key:__rand_int__ $3 "));
    assert_eq!(of("--num-keys-in-fcall 2", "fcall"), "*5 $5 fcall $4 foo1 $1 2 $4 key1 $4 key2 ");
}

#[test]
fn values_contain_their_key_when_they_are_verified() {
    with("--verify -r 5 -d 20", |suite| {
        let set = sent(&suite.named("set"));
        assert!(set.contains("key:__rand_1st__ $20 __rand_1st__"), "{set}");
        assert!(suite.content().keyed);
    });
    assert!(!with("--verify -r 5 -d 11", |suite| suite.content().keyed), "too short");
    assert!(!with("--verify -d 20", |suite| suite.content().keyed), "one key");
}

#[test]
fn sizes_make_variants() {
    with("--sizes 5-9", |suite| {
        assert_eq!(suite.named("set").kinds[0].variants.len(), 5);
        assert_eq!(suite.named("get").kinds[0].variants.len(), 1);
        assert_eq!(suite.named("set").data_size, 7);
    });
}

#[test]
fn mixes_have_kinds_and_weights() {
    with("", |suite| {
        let mix = suite.mix("GET:8,set:2,ping").unwrap();
        assert_eq!(mix.weights, [8, 2, 1]);
        let names: Vec<_> = mix.kinds.iter().map(|kind| &kind.name[..]).collect();
        assert_eq!(names, ["GET", "SET", "PING"]);
        for wrong in ["", "get:0", "get:x", "nosuch:1", "get:1,,set", "lrange_prepare"] {
            assert!(suite.mix(wrong).is_err(), "{wrong}");
        }
    });
}

fn args(line: &str) -> Vec<Vec<u8>> {
    line.split(' ').map(|arg| arg.as_bytes().to_vec()).collect()
}

#[test]
fn sequences_are_separated_and_repeated() {
    let of = |line: &str| with("-d 4", |suite| suite.custom(&args(line)).unwrap());
    let test = of("multi ; 2 incr n ; exec");
    assert_eq!(sent(&test), "*1 $5 multi *2 $4 incr $1 n *2 $4 incr $1 n *1 $4 exec ");
    assert_eq!(test.kinds[0].variants[0].replies(), 4);
    assert_eq!(test.title, "multi ; 2 incr n ; exec");
    assert_eq!(sent(&of("set k a__data__b")).len(), "*3 $3 set $1 k $6 aXXXXb ".len());
    assert!(with("", |suite| suite.custom(&args("; ;")).is_err()));
}

#[test]
fn functions_are_registered() {
    let script = function_script(2, false);
    assert_eq!(script.matches("redis.register_function").count(), 2);
    assert!(script.starts_with("#!lua name=benchlib\n"));
}
