//! Strings as arrays of bits.
//!
//! An offset of half a billion makes a string of 64 MB. So drawn offsets are small or out of range,
//! and `mutate` puts no such number into these commands.

use super::rule::{Rule, rule};
use crate::compare::Compare::Exact;

pub const RULES: &[Rule] = &[
    rule(15, "SET <bitkey> <bitstring>", Exact),
    rule(3, "SET <bitkey> <int>", Exact),
    rule(25, "SETBIT <bitkey> <bitat> (0|1)", Exact),
    rule(2, "SETBIT <bitkey> <bitat> (2|-1|<badint>)", Exact),
    rule(15, "GETBIT <bitkey> <bitat>", Exact),
    rule(10, "BITCOUNT <bitkey>", Exact),
    rule(25, "BITCOUNT <bitkey> <bitindex> [<bitindex> [BYTE|BIT]]", Exact),
    rule(2, "BITCOUNT <bitkey> <bitindex> <bitindex> (BITS|<badint>|BIT BIT)", Exact),
    rule(30, "BITPOS <bitkey> (0|1) [<bitindex> [<bitindex> [BYTE|BIT]]]", Exact),
    rule(2, "BITPOS <bitkey> (2|-1|<badint>) [<bitindex>]", Exact),
    rule(25, "BITOP (AND|OR|XOR) <bitkey> <bitkey>...", Exact),
    rule(8, "BITOP NOT <bitkey> <bitkey>", Exact),
    rule(2, "BITOP (NOT|DIFF|ONE|<word>) <bitkey> <bitkey>...", Exact),
    rule(
        6,
        "BITOP (AND|OR|XOR|NOT) <bitkey=a> <bitkey> ; OBJECT ENCODING <a> ; GET <a> ; TTL <a>",
        Exact,
    ),
    rule(5, "BITFIELD <bitkey>", Exact),
    rule(25, "BITFIELD <bitkey> (GET <bittype> <fieldat>)...", Exact),
    rule(
        40,
        "BITFIELD <bitkey> (GET <bittype> <fieldat>|SET <bittype> <fieldat> <int>|\
         INCRBY <bittype> <fieldat> <int>|OVERFLOW (WRAP|SAT|FAIL))...",
        Exact,
    ),
    rule(
        20,
        "BITFIELD <bitkey> OVERFLOW (WRAP|SAT|FAIL) (SET <bittype> <fieldat> <int>|\
         INCRBY <bittype> <fieldat> <int>|GET <bittype> <fieldat>)...",
        Exact,
    ),
    rule(
        10,
        "BITFIELD <bitkey=a> OVERFLOW (SAT|FAIL) SET <bittype=t> <fieldat=f> <int> ; \
         BITFIELD <a> OVERFLOW (WRAP|SAT|FAIL) INCRBY <t> <f> <int> INCRBY <t> <f> <int> ; \
         BITFIELD_RO <a> GET <t> <f> ; STRLEN <a>",
        Exact,
    ),
    rule(
        2,
        "BITFIELD <bitkey> (OVERFLOW <word>|SET <bittype> <fieldat> <badint>|GET <bittype>|<word>)...",
        Exact,
    ),
    rule(10, "BITFIELD_RO <bitkey> (GET <bittype> <fieldat>)...", Exact),
    rule(
        2,
        "BITFIELD_RO <bitkey> (GET <bittype> <fieldat>|SET <bittype> <fieldat> <int>|OVERFLOW SAT)...",
        Exact,
    ),
    rule(10, "GET <bitkey>", Exact),
    rule(5, "STRLEN <bitkey>", Exact),
    rule(5, "OBJECT ENCODING <bitkey>", Exact),
    rule(4, "DEL <bitkey>", Exact),
    rule(
        3,
        "EXPIRE <bitkey=a> <secs> ; SETBIT <a> <bitat> 1 ; BITFIELD <a> SET u8 0 <int> ; PERSIST <a>",
        Exact,
    ),
    rule(3, "APPEND <bitkey> <bitstring>", Exact),
    rule(2, "COPY <bitkey=a> <bitkey=b> REPLACE ; SETBIT <a> <bitat> 1 ; BITCOUNT <b>", Exact),
    rule(
        2,
        "COMMAND GETKEYS (BITOP AND <bitkey> <bitkey>...|BITFIELD <bitkey> GET u8 0|SETBIT <bitkey> 0 1)",
        Exact,
    ),
    rule(
        2,
        "MULTI ; SETBIT <bitkey=a> <bitat> 1 ; BITOP NOT <bitkey> <a> ; BITCOUNT <a> ; EXEC",
        Exact,
    ),
    rule(
        1,
        "RPUSH <bitkey=a> <member> ; BITCOUNT <a> ; BITFIELD <a> SET u8 0 1 ; BITOP OR <bitkey> <bitkey> <a> ; SETBIT <a> 1 1 ; DEL <a>",
        Exact,
    ),
];
