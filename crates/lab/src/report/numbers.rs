//! Numbers as people write them.

use crate::experiment::Format;
use std::time::Duration;

/// "12,345"
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Three significant digits, with separators where there are more.
pub fn plain(number: f64) -> String {
    match number.abs() {
        size if size >= 100.0 => {
            let sign = if number < 0.0 { "-" } else { "" };
            format!("{sign}{}", count(size.round() as u64))
        }
        size if size >= 10.0 => format!("{number:.1}"),
        size if size >= 0.1 || size == 0.0 => format!("{number:.2}"),
        _ => format!("{number:.3}"),
    }
}

/// "1.5k", "20M": for axes.
pub fn compact(number: f64) -> String {
    let (scaled, unit) = match number.abs() {
        size if size >= 1e9 => (number / 1e9, "G"),
        size if size >= 1e6 => (number / 1e6, "M"),
        size if size >= 1e3 => (number / 1e3, "k"),
        _ => (number, ""),
    };
    let text = if scaled.abs() >= 100.0 {
        format!("{scaled:.0}")
    } else {
        format!("{scaled:.3}")
    };
    let text = match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.'),
        false => &text,
    };
    format!("{text}{unit}")
}

/// "1.5 GiB"
pub fn bytes(number: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut scaled = number as f64;
    let mut unit = 0;
    while scaled >= 1_024.0 && unit + 1 < units.len() {
        scaled /= 1_024.0;
        unit += 1;
    }
    match unit {
        0 => format!("{number} B"),
        _ => format!("{scaled:.1} {}", units[unit]),
    }
}

/// "2 min 5 s"
pub fn duration(time: Duration) -> String {
    let seconds = time.as_secs_f64().round() as u64;
    match (seconds / 3_600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

/// "0.85 times", "12 times"
pub fn ratio(ratio: f64) -> String {
    match ratio {
        ratio if ratio >= 10.0 => format!("{ratio:.0} times"),
        ratio if ratio >= 2.0 => format!("{ratio:.1} times"),
        ratio => format!("{ratio:.2} times"),
    }
}

/// A measure's number, without its unit where the column's head has it.
pub fn value(number: f64, format: Format) -> String {
    match format {
        Format::Count => count(number.round().max(0.0) as u64),
        Format::Bytes => bytes(number.max(0.0) as u64),
        Format::PerSecond
        | Format::Milliseconds
        | Format::Microseconds
        | Format::Seconds
        | Format::Number => plain(number),
    }
}

/// The unit of a column.
pub fn unit(format: Format) -> &'static str {
    match format {
        Format::Count | Format::Bytes | Format::Number => "",
        Format::PerSecond => "per second",
        Format::Milliseconds => "ms",
        Format::Microseconds => "\u{b5}s",
        Format::Seconds => "s",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_people_do() {
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(
            [plain(0.034), plain(0.5), plain(12.34), plain(-1234.5)],
            ["0.034", "0.50", "12.3", "-1,235"]
        );
        assert_eq!(
            [compact(0.0), compact(1500.0), compact(20e6), compact(0.25)],
            ["0", "1.5k", "20M", "0.25"]
        );
        assert_eq!([bytes(512), bytes(1 << 20)], ["512 B", "1.0 MiB"]);
        assert_eq!(duration(Duration::from_secs(125)), "2 min 5 s");
        assert_eq!([ratio(0.5), ratio(25.4)], ["0.50 times", "25 times"]);
    }
}
