//! Scripts of a user with few rights, followed by those of one with all.

use super::withstand;
use weft_testkit::Client;
use weft_tests::scene::client;

/// Each tries to leave code that another user's script runs: CVE-2022-24735 and CVE-2025-46818.
const PLANTS: [&str; 20] = [
    "redis.call = function() return redis.call('set', '{own}stolen', 1) end",
    "rawset(redis, 'call', function() end)",
    "_G.tostring = function() redis.call('set', '{own}stolen', 1) end",
    "rawset(_G, 'tostring', function() end)",
    "string.upper = function() redis.call('set', '{own}stolen', 1) end",
    "getmetatable('').__index = function(s, k) redis.call('set', '{own}stolen', 1) return string[k] end",
    "rawset(getmetatable(''), '__index', function() end)",
    "setmetatable(_G, {__index = function() redis.call('set', '{own}stolen', 1) end})",
    "setmetatable(string, {__index = function() end})",
    "local m = getmetatable(_G) m.__index = function() redis.call('set', '{own}stolen', 1) end",
    "local m = getmetatable(_G) for k in pairs(m) do m[k] = nil end",
    "cjson.encode = function() redis.call('set', '{own}stolen', 1) end",
    "table.insert(cjson, function() end) cjson.x = 1",
    "KEYS = setmetatable({}, {__index = function() redis.call('set', '{own}stolen', 1) end})",
    "setmetatable(KEYS, {__index = function() redis.call('set', '{own}stolen', 1) end})",
    "setmetatable(ARGV, {__newindex = function() end, __index = function() redis.call('set', '{own}stolen', 1) end})",
    "table.foreach(_G, function(k, v) pcall(rawset, _G, k, function() redis.call('set', '{own}stolen', 1) end) end)",
    "local c = coroutine.wrap(function() while true do coroutine.yield() string.upper = 1 end end) c() c()",
    "loadstring('string.upper = function() end')()",
    "x = function() redis.call('set', '{own}stolen', 1) end",
];

/// A script that uses what the plants attack. Its keys are {own}a and {other}b.
const VICTIM: &str = "local t = {} for n = 1, #KEYS do t[#t + 1] = tostring(KEYS[n]):upper() end
    table.sort(t) redis.call('set', KEYS[2], cjson.encode(t)) return redis.call('get', KEYS[2]) .. tostring(ARGV[5])";

fn low_user(admin: &mut Client, other: &mut Client) {
    admin.ok(&[
        "ACL",
        "SETUSER",
        "low",
        "on",
        ">low",
        "~{own}*",
        "+@all",
        "-@admin",
        "-@dangerous",
    ]);
    other.ok(&["AUTH", "low", "low"]);
}

fn check_victim(admin: &mut Client, after: &str) {
    let reply = admin.cmd(&["EVAL", VICTIM, "2", "{own}a", "{other}b", "x"]);
    assert_eq!(reply.to_string(), "\"[\\\"{OTHER}B\\\",\\\"{OWN}A\\\"]nil\"", "{after}");
    assert_eq!(admin.cmd(&["EXISTS", "{own}stolen"]).int(), 0, "{after}");
}

#[test]
fn script_leaves_nothing_for_other_users() {
    withstand(&[], |server, _| {
        for _ in 0..4 {
            let (mut admin, mut low) = (client(server), client(server));
            low_user(&mut admin, &mut low);
            for plant in PLANTS {
                low.cmd(&["EVAL", plant, "1", "{own}k", "arg"]);
                check_victim(&mut admin, plant);
                let library = format!(
                    "#!lua name=plant\nredis.register_function('plant', function(KEYS, ARGV) {plant} end)"
                );
                low.cmd(&["FUNCTION", "LOAD", "REPLACE", &library]);
                low.cmd(&["FCALL", "plant", "1", "{own}k", "arg"]);
                check_victim(&mut admin, plant);
                // While it is loaded.
                low.cmd(&["FUNCTION", "LOAD", "REPLACE", &format!("#!lua name=plant\n{plant}")]);
                check_victim(&mut admin, plant);
            }
            low.cmd(&["FUNCTION", "FLUSH"]);
        }
    });
}

/// A function runs with the rights of its caller, whichever user has loaded it.
#[test]
fn function_has_the_rights_of_its_caller() {
    withstand(&[], |server, admin| {
        let mut low = client(server);
        low_user(admin, &mut low);
        let library = "#!lua name=both\nlocal call\n\
            redis.register_function('keep', function() call = redis.call return 1 end)\n\
            redis.register_function('use', function(keys, args) return (call or redis.call)(unpack(args)) end)";
        assert_eq!(admin.cmd(&["FUNCTION", "LOAD", library]).text(), "both");
        admin.ok(&["SET", "{other}b", "secret"]);
        for _ in 0..3 {
            assert_eq!(admin.cmd(&["FCALL", "keep", "0"]).int(), 1);
            assert_eq!(admin.cmd(&["FCALL", "use", "0", "get", "{other}b"]).text(), "secret");
            let error = low.cmd(&["FCALL", "use", "0", "get", "{other}b"]).error();
            assert!(error.is_some_and(|error| error.contains("No permissions")), "a key of others");
            let error = low.cmd(&["FCALL", "use", "0", "acl", "whoami"]).error();
            assert!(error.is_some(), "a command of administrators");
        }
        admin.ok(&["FUNCTION", "FLUSH"]);
    });
}
