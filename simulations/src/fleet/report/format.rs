//! Numbers as people read them, the same on the page and on the terminal.

use leeway_model::{Millis, Timestamp};

/// To the cent, with thousands set apart.
pub fn dollars(amount: f64) -> String {
    let text = format!("{:.2}", amount.abs());
    let (whole, cents) = text.split_once('.').unwrap_or((&text, "00"));
    format!("{}${}.{cents}", if amount < 0.0 { "-" } else { "" }, grouped(whole))
}

/// Dollars for an hour of work, to a hundredth of a cent.
pub fn per_hour(amount: f64) -> String {
    format!("${amount:.4}")
}

/// A whole number with thousands set apart.
pub fn count(number: f64) -> String {
    let text = format!("{:.0}", number.abs());
    format!("{}{}", if number < 0.0 && text != "0" { "-" } else { "" }, grouped(&text))
}

/// A mean of whole numbers: with one place where it is not whole.
pub fn mean_count(number: f64) -> String {
    if (number - number.round()).abs() < 0.05 { count(number) } else { format!("{number:.1}") }
}

/// A change as a signed share.
pub fn change(share: f64) -> String {
    format!("{:+.1} %", share * 100.0)
}

pub fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// Hours in the unit in which a person would say them.
pub fn length(hours: f64) -> String {
    Millis::from_secs_f64((hours * 3_600.0).round()).to_string()
}

/// An instant to the minute, or the day alone at its very beginning, in UTC.
pub fn moment(at: Timestamp) -> String {
    let text = at.to_string();
    match text.split_once('T') {
        Some((day, "00:00:00Z")) => day.to_owned(),
        Some((day, time)) => format!("{day} {} UTC", time.get(..5).unwrap_or(time)),
        None => text,
    }
}

/// A word in the singular or the plural.
pub fn plural(number: f64, one: &str, many: &str) -> String {
    format!("{} {}", count(number), if number == 1.0 { one } else { many })
}

/// "a", "a and b", "a, b and c".
pub fn listed(parts: &[String]) -> String {
    match parts {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// At most so many characters, with a mark where something is left out.
pub fn short(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

fn grouped(digits: &str) -> String {
    let mut grouped = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dollars_are_grouped_by_thousands() {
        assert_eq!(dollars(1_234_567.891), "$1,234,567.89");
        assert_eq!([dollars(0.0), dollars(999.999), dollars(-12.5)], ["$0.00", "$1,000.00", "-$12.50"]);
        assert_eq!(per_hour(0.51236), "$0.5124");
    }

    #[test]
    fn counts_and_means_keep_only_the_places_that_say_something() {
        assert_eq!([count(1_234.4), count(-0.2), mean_count(3.0), mean_count(2.5)], ["1,234", "0", "3", "2.5"]);
        assert_eq!([change(-0.5234), change(0.02), percent(0.876)], ["-52.3 %", "+2.0 %", "88 %"]);
    }

    #[test]
    fn a_moment_is_a_day_or_a_minute() {
        let text = |text: &str| moment(text.parse().unwrap());
        assert_eq!(text("2026-03-02T00:00:00Z"), "2026-03-02");
        assert_eq!(text("2026-03-03T04:03:04.563Z"), "2026-03-03 04:03 UTC");
    }

    #[test]
    fn words_are_listed_and_cut() {
        assert_eq!(listed(&["a".into(), "b".into(), "c".into()]), "a, b and c");
        assert_eq!([short("whole-bill", 6), short("on", 6)], ["whole…", "on"]);
        assert_eq!([plural(1.0, "job", "jobs"), plural(2_000.0, "job", "jobs")], ["1 job", "2,000 jobs"]);
    }
}
