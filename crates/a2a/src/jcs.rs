//! Canonical JSON (RFC 8785): the one spelling of a value that a signature can cover.
//!
//! Keys stand in the order of their UTF-16 units, numbers are written as ECMAScript does, strings with the fewest
//! escapes. Not here: what of a card is signed (`signing`).

use serde_json::{Map, Value};
use std::fmt::Write as _;

/// How deep objects and lists may stand in each other.
pub const DEPTH_MAX: usize = 128;

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoCanon {
    #[error("it is nested deeper than {DEPTH_MAX}")]
    Deep,
    #[error("a number in it is no double of IEEE 754, so not all would read it alike")]
    Number,
}

pub fn canonical(value: &Value) -> Result<String, NoCanon> {
    let mut out = String::new();
    write(value, &mut out, DEPTH_MAX)?;
    Ok(out)
}

fn write(value: &Value, out: &mut String, depth_left: usize) -> Result<(), NoCanon> {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(truth) => out.push_str(if *truth { "true" } else { "false" }),
        Value::Number(number) => out.push_str(&written(double(number)?)),
        Value::String(text) => quote(text, out),
        Value::Array(list) => write_list(list, out, depth_left.checked_sub(1).ok_or(NoCanon::Deep)?)?,
        Value::Object(map) => write_map(map, out, depth_left.checked_sub(1).ok_or(NoCanon::Deep)?)?,
    }
    Ok(())
}

fn write_list(list: &[Value], out: &mut String, depth_left: usize) -> Result<(), NoCanon> {
    out.push('[');
    for (n, value) in list.iter().enumerate() {
        if n > 0 {
            out.push(',');
        }
        write(value, out, depth_left)?;
    }
    out.push(']');
    Ok(())
}

fn write_map(map: &Map<String, Value>, out: &mut String, depth_left: usize) -> Result<(), NoCanon> {
    let mut pairs: Vec<(&String, &Value)> = map.iter().collect();
    pairs.sort_by(|(one, _), (other, _)| one.encode_utf16().cmp(other.encode_utf16()));
    out.push('{');
    for (n, (key, value)) in pairs.into_iter().enumerate() {
        if n > 0 {
            out.push(',');
        }
        quote(key, out);
        out.push(':');
        write(value, out, depth_left)?;
    }
    out.push('}');
    Ok(())
}

fn quote(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\u{c}' => out.push_str("\\f"),
            '\r' => out.push_str("\\r"),
            c if c < ' ' => drop(write!(out, "\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
}

/// Whole numbers beyond 2^53 are not all doubles; others would read them as a neighbour.
fn double(number: &serde_json::Number) -> Result<f64, NoCanon> {
    const WHOLE_MAX: u64 = 1 << 53;
    let whole = number.as_u64().or_else(|| number.as_i64().map(i64::unsigned_abs));
    if whole.is_some_and(|whole| whole > WHOLE_MAX) {
        return Err(NoCanon::Number);
    }
    number.as_f64().filter(|double| double.is_finite()).ok_or(NoCanon::Number)
}

/// `Number::toString` of ECMAScript.
fn written(double: f64) -> String {
    if double == 0.0 {
        return "0".into();
    }
    let short = shortest(double.abs());
    let (mantissa, exponent) = short.split_once('e').unwrap_or((&short, "0"));
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    let point = exponent.parse::<i32>().unwrap_or_default() + 1;
    let count = i32::try_from(digits.len()).unwrap_or(i32::MAX);
    let zeros = |n: i32| "0".repeat(usize::try_from(n).unwrap_or_default());
    let split = |at: i32| digits.split_at(usize::try_from(at).unwrap_or_default().min(digits.len()));
    let text = if count <= point && point <= 21 {
        format!("{digits}{}", zeros(point - count))
    } else if 0 < point && point <= 21 {
        let (whole, part) = split(point);
        format!("{whole}.{part}")
    } else if -6 < point && point <= 0 {
        format!("0.{}{digits}", zeros(-point))
    } else {
        let (first, rest) = split(1);
        let dot = if rest.is_empty() { "" } else { "." };
        let sign = if point > 0 { '+' } else { '-' };
        format!("{first}{dot}{rest}e{sign}{}", (point - 1).abs())
    };
    if double < 0.0 { format!("-{text}") } else { text }
}

/// The shortest digits that read back as the same double, as `d.ddde±x`; of several the nearest, and of two that are
/// equally near the even one, which is not always the one that Rust would write.
fn shortest(double: f64) -> String {
    let short = format!("{double:e}");
    let digits = short.split('e').next().unwrap_or_default().chars().filter(char::is_ascii_digit).count();
    let nearest = format!("{double:.*e}", digits.saturating_sub(1));
    if nearest.parse() == Ok(double) { nearest } else { short }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// RFC 8785, appendix B: the bits of a double, and how it is written.
    // tidy: table
    const NUMBERS: &[(u64, &str)] = &[
        (0x0000_0000_0000_0000, "0"),
        (0x8000_0000_0000_0000, "0"),
        (0x0000_0000_0000_0001, "5e-324"),
        (0x8000_0000_0000_0001, "-5e-324"),
        (0x7fef_ffff_ffff_ffff, "1.7976931348623157e+308"),
        (0xffef_ffff_ffff_ffff, "-1.7976931348623157e+308"),
        (0x4340_0000_0000_0000, "9007199254740992"),
        (0xc340_0000_0000_0000, "-9007199254740992"),
        (0x4430_0000_0000_0000, "295147905179352830000"),
        (0x44b5_2d02_c7e1_4af5, "9.999999999999997e+22"),
        (0x44b5_2d02_c7e1_4af6, "1e+23"),
        (0x44b5_2d02_c7e1_4af7, "1.0000000000000001e+23"),
        (0x444b_1ae4_d6e2_ef4e, "999999999999999700000"),
        (0x444b_1ae4_d6e2_ef4f, "999999999999999900000"),
        (0x444b_1ae4_d6e2_ef50, "1e+21"),
        (0x3eb0_c6f7_a0b5_ed8c, "9.999999999999997e-7"),
        (0x3eb0_c6f7_a0b5_ed8d, "0.000001"),
        (0x41b3_de43_5555_5553, "333333333.3333332"),
        (0x41b3_de43_5555_5554, "333333333.33333325"),
        (0x41b3_de43_5555_5555, "333333333.3333333"),
        (0x41b3_de43_5555_5556, "333333333.3333334"),
        (0x41b3_de43_5555_5557, "333333333.33333343"),
        (0xbecb_f647_612f_3696, "-0.0000033333333333333333"),
        (0x4314_3ff3_c1cb_0959, "1424953923781206.2"),
    ];

    #[test]
    fn numbers_are_written_as_ecmascript_does() {
        for (bits, text) in NUMBERS {
            let double = f64::from_bits(*bits);
            assert_eq!(written(double), *text, "{bits:x}");
            assert_eq!(text.parse::<f64>().unwrap(), double, "{text} reads back");
        }
        for (number, text) in [(json!(1_048_576.0), "1048576"), (json!(-7), "-7"), (json!(0.1), "0.1")] {
            assert_eq!(canonical(&number).unwrap(), text);
        }
    }

    /// RFC 8785, 3.2.2 and 3.2.3.
    #[test]
    fn the_examples_of_the_rfc() {
        let text = r#"{"numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
            "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/", "literals": [null, true, false]}"#;
        let value: Value = serde_json::from_str(text).unwrap();
        let expected = "{\"literals\":[null,true,false],\
            \"numbers\":[333333333.3333333,1e+30,4.5,0.002,1e-27],\
            \"string\":\"€$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\"}";
        assert_eq!(canonical(&value).unwrap(), expected);
        // By UTF-16: a sign beyond the first plane comes before one at its end.
        let value = json!({ "\u{20ac}": 1, "\r": 2, "\u{fb33}": 3, "1": 4, "\u{1f600}": 5, "\u{80}": 6, "\u{f6}": 7 });
        let expected =
            "{\"\\r\":2,\"1\":4,\"\u{80}\":6,\"\u{f6}\":7,\"\u{20ac}\":1,\"\u{1f600}\":5,\"\u{fb33}\":3}";
        assert_eq!(canonical(&value).unwrap(), expected);
    }

    #[test]
    fn what_not_all_would_read_alike_has_no_canon() {
        assert_eq!(canonical(&json!(u64::MAX)), Err(NoCanon::Number));
        assert_eq!(canonical(&json!(i64::MIN)), Err(NoCanon::Number));
        let nested = |depth| (0..depth).fold(json!(0), |inside, _| json!([inside]));
        assert!(canonical(&nested(DEPTH_MAX)).is_ok());
        assert_eq!(canonical(&nested(DEPTH_MAX + 1)), Err(NoCanon::Deep));
    }
}
