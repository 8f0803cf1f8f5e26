//! The results: rows with a bar, a table for people, JSON for programs.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

/// One number, the numbers of the same run beside it, and the bar it should meet.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    name: String,
    value: f64,
    unit: &'static str,
    bar: Bar,
    beside: Vec<(&'static str, f64, &'static str)>,
    /// Why it could not be measured. Its bar then counts as missed.
    missing: Option<String>,
}

#[derive(Debug, Clone, Copy)]
enum Bar {
    AtLeast(f64),
    AtMost(f64),
    /// Reported because it explains another number.
    None,
}

impl Row {
    pub(super) fn at_least(name: impl Into<String>, value: f64, unit: &'static str, bar: f64) -> Self {
        Self { name: name.into(), value, unit, bar: Bar::AtLeast(bar), beside: Vec::new(), missing: None }
    }

    pub(super) fn at_most(name: impl Into<String>, value: f64, unit: &'static str, bar: f64) -> Self {
        Self { name: name.into(), value, unit, bar: Bar::AtMost(bar), beside: Vec::new(), missing: None }
    }

    pub(super) fn told(name: impl Into<String>, value: f64, unit: &'static str) -> Self {
        Self { name: name.into(), value, unit, bar: Bar::None, beside: Vec::new(), missing: None }
    }

    /// A row whose comparison is not available.
    pub(super) fn missing(name: impl Into<String>, unit: &'static str, bar: f64, why: String) -> Self {
        Self { missing: Some(why), ..Self::at_least(name, 0.0, unit, bar) }
    }

    /// Marks the row as not measured.
    pub(super) fn without(self, why: &str) -> Self {
        Self { missing: Some(why.to_owned()), ..self }
    }

    pub(super) fn beside(mut self, what: &'static str, value: f64, unit: &'static str) -> Self {
        self.beside.push((what, value, unit));
        self
    }

    fn is_met(&self) -> Option<bool> {
        if self.missing.is_some() {
            return Some(false);
        }
        match self.bar {
            Bar::AtLeast(bar) => Some(self.value >= bar),
            Bar::AtMost(bar) => Some(self.value <= bar),
            Bar::None => None,
        }
    }

    fn bar_in_words(&self) -> String {
        match self.bar {
            Bar::AtLeast(bar) => format!("≥ {}", number(bar, self.unit)),
            Bar::AtMost(bar) => format!("≤ {}", number(bar, self.unit)),
            Bar::None => String::new(),
        }
    }

    fn cells(&self) -> [String; 5] {
        let beside: Vec<String> = self
            .beside
            .iter()
            .map(|(what, value, unit)| format!("{what} {}", number(*value, unit)))
            .collect();
        let met = match self.is_met() {
            Some(true) => "yes",
            Some(false) => "NO",
            None => "",
        };
        let (measured, beside) = match &self.missing {
            None => (number(self.value, self.unit), beside.join(", ")),
            Some(why) => ("missing".to_owned(), why.lines().next().unwrap_or_default().to_owned()),
        };
        [self.name.clone(), measured, self.bar_in_words(), met.to_owned(), beside]
    }

    fn json(&self) -> Value {
        let beside: Map<String, Value> = self
            .beside
            .iter()
            .map(|(what, value, unit)| ((*what).to_owned(), json!({ "value": value, "unit": unit })))
            .collect();
        let bar = match self.bar {
            Bar::AtLeast(bar) => json!({ "at_least": bar }),
            Bar::AtMost(bar) => json!({ "at_most": bar }),
            Bar::None => Value::Null,
        };
        json!({
            "name": self.name, "value": self.missing.is_none().then_some(self.value), "unit": self.unit,
            "bar": bar, "met": self.is_met(), "beside": beside, "missing": self.missing,
        })
    }
}

#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) machine: Vec<(&'static str, Value)>,
    pub(super) quick: bool,
    pub(super) rows: Vec<Row>,
    /// Parts that could not be measured, and why.
    pub(super) broken: Vec<String>,
}

impl Report {
    pub(super) fn head(&self) -> String {
        let mut text = String::new();
        for (name, value) in &self.machine {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let _ = writeln!(text, "{name}: {value}");
        }
        text
    }

    pub(super) fn table(&self) -> String {
        let head = ["", "measured", "bar", "met", "in the same run"].map(str::to_owned);
        let rows: Vec<[String; 5]> = std::iter::once(head).chain(self.rows.iter().map(Row::cells)).collect();
        let width = |n: usize| rows.iter().map(|row| row[n].chars().count()).max().unwrap_or(0);
        let widths: [usize; 4] = std::array::from_fn(width);
        let mut text = format!("{}\n", self.head());
        for row in &rows {
            let padded = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}  "));
            let line = format!("{}{}", padded.collect::<String>(), row[4]);
            let _ = writeln!(text, "{}", line.trim_end());
        }
        let missed = self.missed();
        let told = if missed.is_empty() { "none".to_owned() } else { missed.join("; ") };
        let _ = writeln!(text, "\nbars missed: {told}");
        text
    }

    fn missed(&self) -> Vec<&str> {
        self.rows.iter().filter(|row| row.is_met() == Some(false)).map(|row| row.name.as_str()).collect()
    }

    pub(super) fn json(&self) -> String {
        let machine: Map<String, Value> =
            self.machine.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        let rows: Vec<Value> = self.rows.iter().map(Row::json).collect();
        let all = json!({
            "machine": machine, "quick": self.quick, "rows": rows,
            "missed": self.missed(), "broken": self.broken,
        });
        format!("{all:#}\n")
    }
}

fn number(value: f64, unit: &str) -> String {
    let text = match value.abs() {
        large if large >= 100.0 => grouped(value.round()),
        middle if middle >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    };
    if unit.is_empty() { text } else { format!("{text} {unit}") }
}

/// Formats `12345` as `12,345`.
fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (n, digit) in digits.chars().enumerate() {
        if n > 0 && (digits.len() - n).is_multiple_of(3) && !text.ends_with('-') {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// The median. For an even number of values, the mean of the middle two. Zero if there are none.
pub(super) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => 0.0,
        n if n % 2 == 1 => sorted[middle],
        _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_for_people() {
        for (value, unit, shown) in [
            (1_234_567.0, "/s", "1,234,567 /s"),
            (999.6, "", "1,000"),
            (123.0, "MB", "123 MB"),
            (12.34, "ms", "12.3 ms"),
            (0.5, "×", "0.50 ×"),
            (-1234.0, "", "-1,234"),
        ] {
            assert_eq!(number(value, unit), shown);
        }
    }

    #[test]
    fn the_middle_of_some() {
        for (values, middle) in
            [(vec![], 0.0), (vec![3.0], 3.0), (vec![9.0, 1.0, 2.0], 2.0), (vec![1.0, 2.0], 1.5)]
        {
            assert!((median(&values) - middle).abs() < 1e-9, "{values:?}");
        }
    }

    #[test]
    fn a_missed_bar_is_named() {
        let rows = vec![
            Row::at_least("fast", 9.0, "/s", 10.0).beside("raw", 12.0, "/s"),
            Row::at_most("small", 9.0, "MB", 10.0),
            Row::told("why", 1.0, ""),
        ];
        let report = Report { rows, ..Report::default() };
        assert!(report.table().ends_with("bars missed: fast\n"), "{}", report.table());
        assert!(report.table().contains("raw 12.0 /s"));
        let json: Value = serde_json::from_str(&report.json()).unwrap();
        assert_eq!(json["missed"], json!(["fast"]));
        assert_eq!(json["rows"][0]["beside"]["raw"]["value"], json!(12.0));
    }

    #[test]
    fn a_bar_without_its_rival_is_missed_with_the_reason() {
        let rows = vec![Row::missing("of it", "×", 0.0, "it is not installed\nmore".into())];
        let report = Report { rows, ..Report::default() };
        let row =
            report.table().lines().find(|line| line.starts_with("of it")).unwrap_or_default().to_owned();
        assert!(
            row.contains("missing") && row.contains("NO") && row.ends_with("it is not installed"),
            "{row}"
        );
        let json: Value = serde_json::from_str(&report.json()).unwrap();
        assert_eq!((&json["missed"], &json["rows"][0]["value"]), (&json!(["of it"]), &Value::Null));
    }
}
