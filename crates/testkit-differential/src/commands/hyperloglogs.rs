//! Commands on HyperLogLogs.
//!
//! GET of the key shows the whole state: the bytes must be the same. SET also stores other values,
//! valid and invalid ones. The limit of the sparse form is lowered often, so that few elements
//! cross it.
//!
//! PFDEBUG SIMD with neither ON nor OFF is never sent: the reference replies twice.

use super::rule::{Rule, fixed, optional, rule};
use crate::compare::Compare::Exact;

pub const RULES: &[Rule] = &[
    rule(300, "PFADD <hllkey> <hllelement>...", Exact),
    rule(30, "PFADD <hllkey>", Exact),
    rule(
        150,
        "PFADD <hllkey> <hllelement> <hllelement> <hllelement> <hllelement> <hllelement> <hllelement> <hllelement> <hllelement> \
         <hllelement> <hllelement> <hllelement> <hllelement> <hllelement> <hllelement> <hllelement> <hllelement> <hllelement> \
         <hllelement> <hllelement> <hllelement> <hllelement> <hllelement> <hllelement> <hllelement>",
        Exact,
    ),
    rule(150, "PFCOUNT <hllkey>", Exact),
    rule(100, "PFCOUNT <hllkey> <hllkey>...", Exact),
    rule(150, "PFMERGE <hllkey> <hllkey>...", Exact),
    rule(20, "PFMERGE <hllkey>", Exact),
    rule(80, "PFDEBUG DECODE <hllkey>", Exact),
    rule(60, "PFDEBUG ENCODING <hllkey>", Exact),
    rule(20, "PFDEBUG TODENSE <hllkey>", Exact),
    fixed(10, "PFDEBUG GETREG <hllkey>", Exact),
    fixed(15, "PFDEBUG SIMD (ON|OFF)", Exact),
    fixed(5, "PFDEBUG (<word>|\"\") <hllkey>", Exact),
    fixed(5, "PFDEBUG (GETREG|DECODE|ENCODING|TODENSE) (<key>|\"no-such-hll\")", Exact),
    // It uses the present limit, which must be neither small nor large for it to succeed in a short
    // time.
    fixed(1, "CONFIG SET hll-sparse-max-bytes 3000 ; PFSELFTEST", Exact),
    fixed(200, "SET <hllkey> <hll>", Exact),
    rule(150, "GET <hllkey>", Exact),
    fixed(40, "SET <hllkey=a> <hll> ; PFADD <a> <hllelement>... ; GET <a> ; PFCOUNT <a>", Exact),
    fixed(40, "SET <hllkey=a> <hll> ; PFMERGE <a> <hllkey> ; GET <a> ; PFDEBUG DECODE <a>", Exact),
    fixed(
        30,
        "DEL <hllkey=a> ; PFMERGE <a> <hllkey> <hllkey>... ; GET <a> ; PFCOUNT <a> ; OBJECT ENCODING <a>",
        Exact,
    ),
    fixed(
        20,
        "SET <hllkey=a> <hll> ; OBJECT ENCODING <a> ; (PFCOUNT <a>|PFCOUNT <a> <a>|PFADD <a>|PFMERGE <a>|PFDEBUG ENCODING <a>) ; \
         OBJECT ENCODING <a> ; PFCOUNT <a> ; PFADD <a> <hllelement> ; PFADD <a> <hllelement>",
        Exact,
    ),
    rule(40, "PEXPIRE <hllkey=a> <ms> ; PFADD <a> <hllelement> ; PFCOUNT <a> ; PTTL <a>", Exact),
    rule(20, "COPY <hllkey> <hllkey> [REPLACE]", Exact),
    fixed(
        10,
        "COPY <hllkey=a> \"hll9\" REPLACE ; PFADD <a> <hllelement>... ; GET \"hll9\" ; PFCOUNT \"hll9\" ; GET <a>",
        Exact,
    ),
    rule(20, "OBJECT ENCODING <hllkey>", Exact),
    rule(40, "DEL <hllkey>", Exact),
    rule(10, "RPUSH <key> <member>", Exact),
    rule(10, "SET <hllkey> <value>", Exact),
    fixed(15, "CONFIG SET hll-sparse-max-bytes (0|18|20|24|40|100)", Exact),
    // To merge sparse ones the reference takes time in the square of the number of runs, so larger limits
    // don't last long.
    fixed(10, "CONFIG SET hll-sparse-max-bytes (1000|2500|4000)", Exact),
    fixed(
        3,
        "CONFIG SET hll-sparse-max-bytes (5000|16000|1000000000) ; PFADD <hllkey=a> <hllelement>... ; PFMERGE <a> <hllkey> ; GET <a> ; \
         PFCOUNT <a> ; CONFIG SET hll-sparse-max-bytes 3000",
        Exact,
    ),
    fixed(20, "CONFIG SET hll-sparse-max-bytes 3000", Exact),
    optional(10, "MULTI ; PFADD <hllkey=a> <hllelement>... ; PFCOUNT <a> ; GET <a> ; EXEC", Exact),
    optional(
        10,
        "WATCH <hllkey=a> ; (PFCOUNT <a>|PFADD <a> <hllelement>|PFMERGE <a>|PFCOUNT <a> <a>) ; MULTI ; GET <a> ; EXEC",
        Exact,
    ),
];
