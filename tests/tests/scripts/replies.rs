//! Scripts with the same replies as on the reference, byte by byte, in RESP2 and RESP3.

use weft_testkit::{Client, Server};
use weft_tests::scene::{client, on_both};

/// Scripts, one a line. Each has one key, `kk`, and one argument, `aa`. `s` is a string, `abc`.
const SCRIPTS: &str = r###"
return 1
x=1
return y
redis.call=1
string.foo=1
rawset(_G,'a',1)
getmetatable('').x=1
getmetatable('').__index=1
return type(getmetatable(''))
return type(getmetatable(_G))
setmetatable(_G,{})
_G.x=1
table.insert(redis,1)
table.insert({},1,2,3)
return redis.call()
return redis.call('nosuch')
return redis.call('get')
return redis.call('get',{})
return redis.call('multi')
return redis.call('subscribe','x')
return redis.call('config','get','save')
return redis.call('config','nope')
return redis.call('client','id')
local a,b=pcall(redis.call,'nosuch') return {type(b), tostring(b), type(b)=='table' and b.err or 'x'}
return redis.pcall('nosuch').err
error('boom')
error({err='My err'})
return {err='X y'}
return {err=''}
return {ok='fine'}
foo(
return {1,2,nil,4}
return 3.99
return -0.5
return 1e300
return true
return false
return nil
return {a=1}
return redis.error_reply('abc')
return redis.error_reply('')
return redis.error_reply('-X abc')
return redis.error_reply('X  abc')
return redis.error_reply('-abc')
return redis.error_reply(5)
return redis.status_reply()
return redis.status_reply('a','b')
return redis.status_reply('abc')
return redis.sha1hex('a')
return redis.sha1hex()
return redis.sha1hex(12)
return redis.log(1)
return redis.log(1,2)
return redis.log(9,'x')
return redis.log('a','x')
return redis.log('1','x')
return redis.setresp(4)
return redis.setresp()
return redis.setresp('3')
return redis.setresp(2)
return redis.set_repl(9)
return redis.set_repl()
return redis.set_repl(redis.REPL_ALL)
return redis.replicate_commands()
return redis.breakpoint()
return redis.debug('x')
return redis.acl_check_cmd('set','x',1)
return redis.acl_check_cmd('sett')
return redis.acl_check_cmd('set')
return redis.acl_check_cmd()
return redis.call('set','a',1.5)
return redis.call('get','a')
redis.call('set','a',1e20) return redis.call('get','a')
redis.call('set','a',0.1) return redis.call('get','a')
redis.call('set','a',1e15) return redis.call('get','a')
redis.call('set','a',-3) return redis.call('get','a')
redis.call('set','a',12345678901234567890) return redis.call('get','a')
redis.call('set','a',1/0) return redis.call('get','a')
redis.call('set','a',1/3) return redis.call('get','a')
return redis.call('set','a',true)
return redis.call({},'a')
math.randomseed(7) return math.random(1000)
return math.random(0)
return math.random(1,2,3)
return math.random('x')
return {double=3.1}
return {double=3}
return {double='x'}
return {double=1e300}
return {double=0/0}
return {double=1/0}
return _VERSION
return loadstring('return 5')()
return loadstring('return +')
return {type(load), type(loadstring)}
local f,e = loadstring('\27Lua') return {tostring(f),e}
local f,e = load(function() return nil end) return type(f)
return type(newproxy)
return type(print)
return type(dofile)
return type(getfenv)
return type(require)
return redis.REDIS_VERSION
return redis.REDIS_VERSION_NUM
return {redis.VALKEY_VERSION, redis.VALKEY_VERSION_NUM, redis.SERVER_NAME}
return redis.register_function
local t = nil; return t.x
return 1+{}
return #5
error()
error({})
error(nil)
error(5)
error('x',0)
error('x',2)
error(true)
error({err='abc', line='7', source='foo'})
local f = function() error('x') end f()
return redis.call('incr','s')
return redis.pcall('incr','s')
local e = redis.pcall('incr','s') local t={} for k,v in pairs(e) do t[#t+1]=k..'='..tostring(v) end table.sort(t) return t
local ok,e = pcall(redis.call,'incr','s') if type(e)=='table' then local t={} for k,v in pairs(e) do t[#t+1]=k..'='..tostring(v) end table.sort(t) return t end return e
local ok,e = pcall(redis.call) return {type(e), e}
local ok,e = pcall(redis.call,'get',{}) return {type(e), type(e)=='table' and e.err or e}
local ok,e = pcall(error,'x') return e
local ok,e = pcall(error,{err='a'}) return e
local ok,e = pcall(function() local x = nil; x() end) return e
return {xpcall(function() error('a') end, function(e) return 'H:'..e end)}
return select('#', xpcall(function() return 1,2,3 end, function(e) return 'H:'..e end))
local function f() return 1+f() end return f()
redis.setresp(3) return redis.call('hgetall','nohash')
redis.setresp(3) redis.call('hset','h','a',1); return redis.call('hgetall','h')
redis.setresp(3) local r = redis.call('hgetall','h') local t={} for k,v in pairs(r) do t[#t+1]=tostring(k)..type(v) end return t
redis.call('zadd','z',1.5,'a') return redis.call('zscore','z','a')
redis.setresp(3) return redis.call('zscore','z','a')
redis.setresp(3) local r=redis.call('zscore','z','a') return type(r)..r.double
redis.setresp(3) redis.call('sadd','st','a') local r = redis.call('smembers','st') local t={} for k,v in pairs(r) do t[#t+1]=tostring(k)..type(v) for a,b in pairs(v) do t[#t+1]=tostring(a)..tostring(b) end end return t
redis.setresp(3) return redis.call('smembers','st')
redis.setresp(3) return type(redis.call('get','nokey'))
redis.setresp(3) return redis.call('get','nokey')
redis.setresp(3) return true
redis.setresp(3) return false
redis.setresp(3) return {true,false,1}
redis.setresp(3) return redis.call('zrange','z',0,-1,'withscores')
return type(redis.call('get','nokey'))
return redis.call('get','nokey')
return {map={a=1}}
return {map={a={double=2.5}}}
return {set={a=true}}
return {set={a=1}}
return {big_number='12345678901234567890'}
return {big_number=5}
return {verbatim_string={string='abc',format='txt'}}
return {verbatim_string={string='abc'}}
return {verbatim_string='abc'}
return {map=5}
return {set=5}
return {big_number='1\r\n2'}
return {err='a\r\nb'}
return {ok='a\r\nb'}
return {ok=5}
return {err=5}
return {false,true,nil,3}
return {1,{2,{3,'x'}},redis.status_reply('OK'),redis.error_reply('E x')}
return 0/0
return function() end
return coroutine.create(function() end)
local co = coroutine.wrap(function(a) local b = coroutine.yield(a+1) return b*2 end) return {co(1), co(5)}
local co = coroutine.wrap(function(a) return redis.call('ping') end) return co()
return redis.call('ping')
return redis.call('PING','x')
local r=redis.call('ping') return type(r)..r.ok
return redis.call('echo','x')
return redis.call('time')[1] > '1'
return redis.call('select','2')
redis.call('select','3') redis.call('set','k3','v') return redis.call('get','k3')
return redis.call('get','k3')
return redis.call('dbsize') > 0
return redis.call('publish','ch','m')
return redis.call('blpop','nolist',0)
return redis.call('brpoplpush','nolist','b',0)
return redis.call('xread','block',0,'streams','nos','$')
return redis.call('object','encoding','a')
return redis.call('object','nope','a')
return redis.call('lrange','l',0,-1)
redis.call('rpush','l','a','b','c') return redis.call('lrange','l',0,-1)
return #redis.call('lrange','l',0,-1)
return redis.call('exists','l','h','nope')
return redis.call('eval','return 1',0)
return redis.call('script','load','return 1')
return redis.call('scan',0)[1]
return redis.call('keys','*k3*')
return redis.call('randomkey') ~= false
return redis.call('type','l')
return redis.call('flushdb')
return redis.call('dbsize')
return redis.call('set','a','1','ex','10')
return redis.call('ttl','a')
return KEYS[1]
return #KEYS
KEYS[1]='x' return KEYS[1]
ARGV=5
return {unpack({1,2,3})}
return {unpack({1,2,3},2)}
return {unpack({},-2147483648,2147483647)}
return {unpack({},1,1e8)}
return table.concat({1,2,'x'},',')
return rawget(redis,'LOG_DEBUG')
return rawget(_G,'nope')
return rawget({5},1)
return rawget({5})
return type(rawset({},1,2))
return next({})
return next({7})
local n=0 for k,v in pairs(redis) do n=n+1 end return n
local t={} for k,v in pairs(string) do t[#t+1]=k end table.sort(t) return table.concat(t,' ')
local t={} for k,v in pairs(math) do t[#t+1]=k end table.sort(t) return table.concat(t,' ')
local t={} for k,v in pairs(table) do t[#t+1]=k end table.sort(t) return table.concat(t,' ')
local t={} for k,v in pairs(os) do t[#t+1]=k end table.sort(t) return table.concat(t,' ')
pairs()
pairs(5)
ipairs()
setmetatable(5,{})
setmetatable({},5)
local t = setmetatable({},{__metatable=1}) setmetatable(t,{})
return getmetatable(setmetatable({},{__metatable=1}))
return ('x'):upper()
return ('x'):rep(3)
return string.format('%d %s %5.2f', 3, 'a', 1.5)
return string.format('%d', 'x')
return string.rep()
return tostring(nil)..tostring(true)
return tonumber('0x10')
return tonumber('z',36)
return tonumber('')
return type(os.clock())
return os.time()
return #string.dump(function() end) > 10
assert(false)
assert(false,'msg')
assert(nil,{err='E t'})
return assert(1,2)
return collectgarbage('count') > 0
return gcinfo() > 0
return redis == server
local x <const> = 5
goto a
#!lua
#!lua flags=no-writes
return string.gsub('hello','l','L')
return string.find('hello','l')
return {string.byte('abc',1,-1)}
return tostring(redis) == tostring(server)
return select(-1, 1, 2, 3)
return select(0)
return math.floor(3.7)
return 10 % 3
return 2^10
return 'a'..1
return 1 == 1.0
return {[1]='a',[2]='b',x='c'}
return {nil,1}
return #{1,2,nil,4}
return redis.call('set',KEYS[1],ARGV[1])
"###;

fn greet(server: &Server, protocol: u8) -> Client {
    let mut client = client(server);
    client.hello(protocol);
    client.ok(&["FLUSHALL"]);
    client.ok(&["SET", "s", "abc"]);
    client
}

/// The name of the product in one error text.
fn without_name(raw: &[u8]) -> String {
    String::from_utf8_lossy(raw).replace("This Weft command", "This Valkey command")
}

#[test]
fn replies_are_those_of_the_reference() {
    let Some(valkey) = Server::valkey(&[]) else {
        weft_testkit::skipped::note_here("no valkey-server in PEERS_BIN or PATH");
        return;
    };
    let weft = Server::weft(&[]);
    for protocol in [2, 3] {
        let (mut ours, mut theirs) = (greet(&weft, protocol), greet(&valkey, protocol));
        for line in SCRIPTS.trim().lines() {
            let more =
                if line.starts_with("#!") { "\nreturn redis.call('set','x','1')" } else { "" };
            let script = format!("{line}{more}");
            let request = ["EVAL", &script, "1", "kk", "aa"];
            let (our, their) = (ours.try_cmd(&request), theirs.try_cmd(&request));
            let our = without_name(&our.unwrap_or_else(|e| panic!("{script}: {e}")).raw);
            let their = without_name(&their.unwrap_or_else(|e| panic!("{script}: {e}")).raw);
            assert_eq!(our, their, "RESP{protocol}: {script}");
        }
    }
}

/// The script commands themselves: arguments, the cache, errors.
#[test]
fn commands_on_scripts() {
    on_both(&[], &[], |server| {
        let mut client = client(server);
        let error =
            |client: &mut Client, args: &[&str]| client.cmd(args).error().unwrap_or_default();
        let sha = client.cmd(&["SCRIPT", "LOAD", "return ARGV[1]"]).text();
        assert_eq!(sha, "098e0f0d1448c0a81dafe820f66d460eb09263da");
        assert_eq!(client.cmd(&["EVALSHA", &sha, "0", "x"]).text(), "x");
        assert_eq!(client.cmd(&["EVALSHA", &sha.to_uppercase(), "0", "x"]).text(), "x");
        assert_eq!(client.cmd(&["SCRIPT", "SHOW", &sha]).text(), "return ARGV[1]");
        let found = client.cmd(&["SCRIPT", "EXISTS", &sha, "x", &"0".repeat(40)]);
        assert_eq!(found.items().iter().map(|n| n.int()).collect::<Vec<_>>(), [1, 0, 0]);
        // The clock stands still.
        let script = "local function time() return table.concat(redis.call('time'), '.') end \
                      local first = time() for n = 1, 1e5 do end return tostring(first == time())";
        assert_eq!(client.cmd(&["EVAL", script, "0"]).text(), "true");
        client.ok(&["SCRIPT", "FLUSH"]);
        let unknown = "NOSCRIPT No matching script.";
        assert_eq!(error(&mut client, &["EVALSHA", &sha, "0", "x"]), unknown);
        assert_eq!(error(&mut client, &["EVALSHA", "short", "0"]), unknown);
        assert_eq!(client.cmd(&["EVAL", "return ARGV[1]", "0", "y"]).text(), "y");
        assert_eq!(client.cmd(&["EVALSHA", &sha, "0", "z"]).text(), "z");
        for (args, text) in [
            (&["EVAL", "return 1", "x"][..], "ERR value is not an integer or out of range"),
            (&["EVAL", "return 1", "-1"], "ERR Number of keys can't be negative"),
            (
                &["EVAL", "return 1", "2", "a"],
                "ERR Number of keys can't be greater than number of args",
            ),
            (&["SCRIPT", "KILL"], "NOTBUSY No scripts in execution right now."),
            (&["SCRIPT", "FLUSH", "X"], "ERR SCRIPT FLUSH only support SYNC|ASYNC option"),
            (
                &["EVAL_RO", "return redis.call('set','a','b')", "0"],
                "ERR Write commands are not allowed from read-only scripts. script: on @user_script:1.",
            ),
            (
                &["EVAL_RO", "return redis.call('publish','a','b')", "0"],
                "ERR Write commands are not allowed from read-only scripts. script: on @user_script:1.",
            ),
            (
                &["EVAL_RO", "return redis.call('pfcount','a')", "0"],
                "ERR Write commands are not allowed from read-only scripts. script: on @user_script:1.",
            ),
            (
                &["EVAL_RO", "#!lua\nreturn redis.call('set','a','b')", "0"],
                "ERR Can not execute a script with write flag using *_ro command.",
            ),
            (
                &["EVAL", "#!lua flags=no-writes\nreturn redis.call('set','a','b')", "0"],
                "ERR Write commands are not allowed from read-only scripts. script: on @user_script:2.",
            ),
        ] {
            assert_eq!(error(&mut client, args), text, "{}: {args:?}", server.name());
        }
    });
}
