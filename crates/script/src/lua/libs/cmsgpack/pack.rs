//! Lua values to MessagePack.

use super::super::number::{to_i32, to_i64};
use super::super::{MOST_STACK, check_stack, unwrap_proxy};
use crate::lua::frame::{Frame, Kind, Raised};

/// A table at this level is written as nil.
const MOST_LEVELS: usize = 16;

pub(super) fn pack(frame: &mut Frame<'_>) -> Result<usize, Raised> {
    let args = frame.len();
    if args == 0 {
        return Err(frame.bad_argument(0, "MessagePack pack needs input."));
    }
    if 2 * args > MOST_STACK {
        return Err(frame.bad_argument(0, "Too many arguments for MessagePack pack."));
    }
    let mut packer = Packer { out: Vec::new(), hidden: 0 };
    for arg in 1..=args {
        check_stack(frame, packer.hidden, 1, "in function mp_check")?;
        frame.push_copy(arg as i32);
        packer.value(frame, 0)?;
        packer.hidden += 1;
    }
    frame.check_room(packer.out.len())?;
    frame.push_bytes(&packer.out);
    Ok(1)
}

struct Packer {
    out: Vec<u8>,
    /// Values that the reference has on its stack meanwhile: the arguments that are packed.
    hidden: usize,
}

impl Packer {
    /// Packs the last value and removes it. Recursive, up to [`MOST_LEVELS`].
    fn value(&mut self, frame: &mut Frame<'_>, level: usize) -> Result<(), Raised> {
        match frame.kind(-1) {
            Kind::Table if level < MOST_LEVELS => self.table(frame, level)?,
            Kind::String => {
                frame.check_output(self.out.len() + frame.length(-1))?;
                self.bytes(frame.bytes(-1).unwrap_or_default());
            }
            Kind::Boolean => self.out.push(if frame.is_true(-1) { 0xc3 } else { 0xc2 }),
            Kind::Number => self.number(frame.number(-1).unwrap_or_default()),
            _ => self.out.push(0xc0),
        }
        frame.pop(1);
        frame.check_output(self.out.len())
    }

    fn table(&mut self, frame: &mut Frame<'_>, level: usize) -> Result<(), Raised> {
        check_stack(frame, self.hidden, 2, "in function table_is_an_array")?;
        unwrap_proxy(frame);
        if is_array(frame) { self.array(frame, level) } else { self.map(frame, level) }
    }

    fn array(&mut self, frame: &mut Frame<'_>, level: usize) -> Result<(), Raised> {
        let len = frame.length(-1);
        self.head(len, 0x90, 0xdc);
        check_stack(frame, self.hidden, 1, "in function mp_encode_lua_table_as_array")?;
        for n in 1..=len {
            frame.get_index(-1, n as i64);
            self.value(frame, level + 1)?;
        }
        Ok(())
    }

    fn map(&mut self, frame: &mut Frame<'_>, level: usize) -> Result<(), Raised> {
        check_stack(frame, self.hidden, 3, "in function mp_encode_lua_table_as_map")?;
        let mut len = 0;
        frame.push_nil();
        while frame.next(-2) {
            frame.pop(1);
            len += 1;
        }
        self.head(len, 0x80, 0xde);
        frame.push_nil();
        while frame.next(-2) {
            frame.push_copy(-2);
            self.value(frame, level + 1)?;
            self.value(frame, level + 1)?;
        }
        Ok(())
    }

    /// The head of an array or a map: `short` is the code for up to 15 elements, `long` the one with 16 bits.
    fn head(&mut self, len: usize, short: u8, long: u8) {
        if len < 16 {
            self.out.push(short | len as u8);
        } else if let Ok(len) = u16::try_from(len) {
            self.code(long, &len.to_be_bytes());
        } else {
            self.code(long + 1, &(len as u32).to_be_bytes());
        }
    }

    fn code(&mut self, code: u8, rest: &[u8]) {
        self.out.push(code);
        self.out.extend_from_slice(rest);
    }

    fn bytes(&mut self, bytes: &[u8]) {
        let len = bytes.len();
        if len < 32 {
            self.out.push(0xa0 | len as u8);
        } else if let Ok(len) = u8::try_from(len) {
            self.code(0xd9, &[len]);
        } else if let Ok(len) = u16::try_from(len) {
            self.code(0xda, &len.to_be_bytes());
        } else {
            self.code(0xdb, &(len as u32).to_be_bytes());
        }
        self.out.extend_from_slice(bytes);
    }

    fn number(&mut self, number: f64) {
        let integer = to_i64(number);
        if integer as f64 == number {
            self.integer(integer);
        } else if f64::from(number as f32) == number {
            self.code(0xca, &(number as f32).to_be_bytes());
        } else {
            self.code(0xcb, &number.to_be_bytes());
        }
    }

    fn integer(&mut self, n: i64) {
        match n {
            -32..=127 => self.out.push(n as u8),
            128..=0xff => self.code(0xcc, &[n as u8]),
            0x100..=0xffff => self.code(0xcd, &(n as u16).to_be_bytes()),
            0x1_0000..=0xffff_ffff => self.code(0xce, &(n as u32).to_be_bytes()),
            0x1_0000_0000.. => self.code(0xcf, &n.to_be_bytes()),
            -0x80..=-33 => self.code(0xd0, &[n as u8]),
            -0x8000..=-0x81 => self.code(0xd1, &(n as i16).to_be_bytes()),
            -0x8000_0000..=-0x8001 => self.code(0xd2, &(n as i32).to_be_bytes()),
            _ => self.code(0xd3, &n.to_be_bytes()),
        }
    }
}

/// Whether the keys of the table that is the last value are 1 to n.
fn is_array(frame: &mut Frame<'_>) -> bool {
    let (mut count, mut most) = (0_i32, 0_i32);
    frame.push_nil();
    while frame.next(-2) {
        frame.pop(1);
        let number = match frame.kind(-1) {
            Kind::Number => frame.number(-1).unwrap_or_default(),
            _ => 0.0,
        };
        if number <= 0.0 || f64::from(to_i32(number)) != number {
            frame.pop(1);
            return false;
        }
        most = most.max(number as i32);
        count += 1;
    }
    most == count
}
