//! Strings around the sizes from which they consist of pieces, shared with copies and edited in
//! place.
//!
//! Offsets are near the ends of pieces of 64 KiB, up to six of them. `mutate` changes nothing here,
//! since a wrong offset could make a string of 512 MB.

use super::rule::{Rule, fixed};
use crate::compare::Compare::Exact;

pub const RULES: &[Rule] = &[
    fixed(10, "SET <largekey> <largepart>", Exact),
    fixed(
        4,
        "SET <largekey=a> <largepart> ; APPEND <a> <largepart> ; APPEND <a> <largepart>",
        Exact,
    ),
    fixed(
        6,
        "SET <largekey=a> <largepart> {[EX <secs>] [GET]} ; COPY <a> <largekey> REPLACE",
        Exact,
    ),
    fixed(30, "SETRANGE <largekey> <largeat> <largepart>", Exact),
    fixed(30, "SETRANGE <largekey> <largeat> <value>", Exact),
    fixed(25, "APPEND <largekey> <value>", Exact),
    fixed(8, "APPEND <largekey> <largepart>", Exact),
    fixed(25, "SETBIT <largekey> <largebit> (0|1)", Exact),
    fixed(15, "GETBIT <largekey> <largebit>", Exact),
    fixed(20, "GETRANGE <largekey> <largeat> <largeat>", Exact),
    fixed(10, "GETRANGE <largekey> <index> <index>", Exact),
    fixed(5, "SUBSTR <largekey> <largeat> -1", Exact),
    fixed(10, "STRLEN <largekey>", Exact),
    fixed(5, "GET <largekey>", Exact),
    fixed(3, "MGET <largekey> <largekey>", Exact),
    fixed(10, "COPY <largekey> <largekey> REPLACE", Exact),
    fixed(
        12,
        "COPY <largekey=a> <largekey=b> REPLACE ; SETRANGE <a> <largeat> <value> ; GET <b> ; DELIFEQ <b> <value>",
        Exact,
    ),
    fixed(
        6,
        "COPY <largekey=a> <largekey=b> REPLACE ; APPEND <b> <value> ; DEL <a> ; SETBIT <b> <largebit> 1 ; GET <b>",
        Exact,
    ),
    fixed(15, "BITCOUNT <largekey> [<largeat> <largeat> [BYTE]]", Exact),
    fixed(10, "BITCOUNT <largekey> <largebit> <largebit> BIT", Exact),
    fixed(15, "BITPOS <largekey> (0|1) [<largeat> [<largeat> [BYTE]]]", Exact),
    fixed(10, "BITPOS <largekey> (0|1) <largebit> <largebit> BIT", Exact),
    fixed(8, "BITOP (AND|OR|XOR) <largekey> <largekey>...", Exact),
    fixed(4, "BITOP NOT <largekey> <largekey>", Exact),
    fixed(
        25,
        "BITFIELD <largekey> (GET <bittype> <largebit>|SET <bittype> <largebit> <int>|\
         INCRBY <bittype> <largebit> <int>|OVERFLOW (WRAP|SAT|FAIL))...",
        Exact,
    ),
    fixed(8, "BITFIELD_RO <largekey> (GET <bittype> <largebit>)...", Exact),
    fixed(4, "SET <largekey=a> <largepart=v> ; SET <a> <value> IFEQ <v> GET ; STRLEN <a>", Exact),
    fixed(2, "GETSET <largekey> <largepart>", Exact),
    fixed(2, "GETDEL <largekey>", Exact),
    fixed(3, "GETEX <largekey> [EX <secs>|PERSIST]", Exact),
    fixed(3, "(INCR|DECR) <largekey>", Exact),
    fixed(3, "INCRBYFLOAT <largekey> 1", Exact),
    fixed(3, "LCS <largekey> <lcskey> [LEN]", Exact),
    fixed(4, "OBJECT ENCODING <largekey>", Exact),
    fixed(5, "DEBUG DIGEST-VALUE <largekey>", Exact),
    fixed(
        3,
        "SET <largekey=a> <hll> ; SETRANGE <a> <largeat> <value> ; PFADD <a> <hllelement> ; PFCOUNT <a> ; PFMERGE <hllkey> <a>",
        Exact,
    ),
    fixed(
        2,
        "SETRANGE <largekey=a> <largeat> x ; DEL li ; RPUSH li 1 ; SORT li BY nothing GET large*",
        Exact,
    ),
    fixed(2, "RENAME <largekey> <largekey>", Exact),
    fixed(2, "DEL <largekey>", Exact),
    fixed(
        3,
        "MULTI ; SETRANGE <largekey=a> <largeat> <value> ; COPY <a> <largekey> REPLACE ; APPEND <a> x ; GETRANGE <a> <largeat> -1 ; EXEC",
        Exact,
    ),
];
