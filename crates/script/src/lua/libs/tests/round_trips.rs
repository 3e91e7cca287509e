//! Generated values are the same after a round trip, and generated input is no danger.

use super::run;
use crate::lua::Lua;
use proptest::prelude::*;
use std::fmt::Write;

/// A value as a Lua expression.
#[derive(Clone, Debug)]
enum Value {
    Boolean(bool),
    Integer(i64),
    Number(f64),
    Text(Vec<u8>),
    List(Vec<Value>),
    Map(Vec<(Vec<u8>, Value)>),
}

fn write_text(out: &mut String, text: &[u8]) {
    out.push('\'');
    for byte in text {
        write!(out, "\\{byte:03}").unwrap();
    }
    out.push('\'');
}

impl Value {
    fn write(&self, out: &mut String) {
        match self {
            Value::Boolean(value) => write!(out, "{value}").unwrap(),
            Value::Integer(value) => write!(out, "({value})").unwrap(),
            Value::Number(value) => write!(out, "({value:e})").unwrap(),
            Value::Text(text) => write_text(out, text),
            Value::List(list) => {
                out.push('{');
                for value in list {
                    value.write(out);
                    out.push(',');
                }
                out.push('}');
            }
            Value::Map(map) => {
                out.push('{');
                for (key, value) in map {
                    out.push('[');
                    write_text(out, key);
                    out.push_str("]=");
                    value.write(out);
                    out.push(',');
                }
                out.push('}');
            }
        }
    }
}

fn values() -> impl Strategy<Value = Value> {
    let text = || proptest::collection::vec(any::<u8>(), 0..40);
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::Boolean),
        (-99_999_999_999_999_i64..=99_999_999_999_999).prop_map(Value::Integer),
        (-300_i64..300).prop_map(Value::Integer),
        text().prop_map(Value::Text),
    ];
    leaf.prop_recursive(6, 40, 5, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..20).prop_map(Value::List),
            proptest::collection::vec((text(), inner), 0..5).prop_map(Value::Map),
        ]
    })
}

/// Whether a script that gets `value` as `v` returns true. `same` compares tables with their elements.
fn holds(value: &Value, condition: &str) -> bool {
    thread_local! {
        static LUA: std::cell::RefCell<Lua> = std::cell::RefCell::new(Lua::new());
    }
    let mut source = String::from(
        "local function same(a, b) if type(a) ~= 'table' or type(b) ~= 'table' then return a == b end \
         for k, v in pairs(a) do if not same(v, b[k]) then return false end end \
         for k in pairs(b) do if a[k] == nil then return false end end return true end local v = ",
    );
    value.write(&mut source);
    write!(source, " return tostring({condition})").unwrap();
    LUA.with(|lua| run(&mut lua.borrow_mut(), &source)) == b"true"
}

proptest! {
    #[test]
    fn json_keeps_values(value in values()) {
        prop_assert!(holds(&value, "same(v, cjson.decode(cjson.encode(v)))"));
    }

    #[test]
    fn messagepack_keeps_values(value in values()) {
        prop_assert!(holds(&value, "same(v, cmsgpack.unpack(cmsgpack.pack(v)))"));
    }

    #[test]
    fn messagepack_and_structures_keep_numbers(number in any::<f64>()) {
        prop_assume!(number.is_finite());
        let value = Value::Number(number);
        prop_assert!(holds(&value, "cmsgpack.unpack(cmsgpack.pack(v)) == v"));
        prop_assert!(holds(&value, "(struct.unpack('>d', struct.pack('>d', v))) == v"));
    }

    #[test]
    fn structures_keep_integers(number in -(1_i64 << 53)..1 << 53) {
        let value = Value::Integer(number);
        prop_assert!(holds(&value, "(struct.unpack('>!8bl', struct.pack('>!8bl', 1, v))) == 1"));
        prop_assert!(holds(&value, "select(2, struct.unpack('!bl', struct.pack('!bl', 1, v))) == v"));
        prop_assert!(holds(&value, "(struct.unpack('>i7', struct.pack('>i7', v))) == v"));
    }

    /// Any bytes are decoded or an error.
    #[test]
    fn damaged_input_raises_errors(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        json in "[\\[\\]{}\":,0-9eEtruefalsnx+.\\\\ -]{0,60}",
    ) {
        for text in [bytes, json.into_bytes()] {
            let value = Value::Text(text);
            prop_assert!(holds(&value, "type(pcall(cjson.decode, v)) == 'boolean'"));
            prop_assert!(holds(&value, "type(pcall(struct.unpack, v, v)) == 'boolean'"));
            let call = "type(pcall(function() local r = cmsgpack.unpack(v) end)) == 'boolean'";
            prop_assert!(holds(&value, call));
        }
    }
}
