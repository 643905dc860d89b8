//! Values of a line, checked: nothing negative, not a number, too large or absurd passes.

use leeway_model::{Bytes, Millis, name};

use super::error::Fault;

/// The longest time and the latest moment in milliseconds: a century.
pub const SPAN_MAX_MS: u64 = 876_600 * 3_600_000;
/// Most nodes, GPUs or CPUs of one job.
pub const COUNT_MAX: u32 = 1_000_000;
/// Most memory of one node.
const MEMORY_MAX: u64 = 1 << 50;
/// Longest name.
const TEXT_MAX: usize = 256;

/// A value where it stands.
#[derive(Clone, Copy, Debug)]
pub struct Value<'a> {
    pub column: &'a str,
    pub text: &'a str,
}

/// A count that was a fraction in the source is rounded up, and this says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Whole {
    pub count: u32,
    pub was_fraction: bool,
}

impl<'a> Value<'a> {
    pub fn fault(&self, problem: &str) -> Fault {
        let problem = match self.text {
            "" => format!("is empty; it {problem}"),
            text => format!("'{}' {problem}", name::escape(text)),
        };
        Fault::new(self.column, problem)
    }

    pub const fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Seconds, whole or decimal, from zero to a century; finer than a millisecond is rounded.
    pub fn secs(&self) -> Result<Millis, Fault> {
        self.length(1_000.0)
    }

    /// The same in whole milliseconds.
    pub fn millis(&self) -> Result<Millis, Fault> {
        let millis = self.digits().filter(|millis| *millis <= SPAN_MAX_MS);
        millis.map(Millis::new).ok_or_else(|| self.fault("must be whole milliseconds from 0 to a century"))
    }

    fn length(&self, scale: f64) -> Result<Millis, Fault> {
        let millis = self.number().map(|number| (number * scale).round());
        match millis {
            Some(millis) if (0.0..=SPAN_MAX_MS as f64).contains(&millis) => Ok(Millis::new(millis as u64)),
            _ => Err(self.fault("must be seconds from 0 to a century")),
        }
    }

    /// A whole number in this range; `4.0` is one as well.
    pub fn count(&self, least: u32, most: u32) -> Result<u32, Fault> {
        let number = self.number().filter(|number| number.fract() == 0.0);
        match number {
            Some(number) if (f64::from(least)..=f64::from(most)).contains(&number) => Ok(number as u32),
            _ => Err(self.fault(&format!("must be a whole number from {least} to {most}"))),
        }
    }

    /// A number from zero on in units of which `per_whole` make a whole one, rounded up to whole ones.
    pub fn round_up(&self, per_whole: f64) -> Result<Whole, Fault> {
        match self.number().map(|number| number / per_whole) {
            Some(number) if (0.0..=f64::from(COUNT_MAX)).contains(&number) => {
                Ok(Whole { count: number.ceil() as u32, was_fraction: number.fract() != 0.0 })
            }
            _ => Err(self.fault(&format!("must be a number from 0 to {}", f64::from(COUNT_MAX) * per_whole))),
        }
    }

    /// A size in units of so many bytes.
    pub fn size(&self, unit: u64) -> Result<Bytes, Fault> {
        match self.number().map(|number| (number * unit as f64).ceil()) {
            Some(bytes) if (0.0..=MEMORY_MAX as f64).contains(&bytes) => Ok(Bytes::new(bytes as u64)),
            _ => Err(self.fault("must be a size from 0 to 1 PiB")),
        }
    }

    /// A size in whole bytes.
    pub fn bytes(&self) -> Result<Bytes, Fault> {
        let bytes = self.digits().filter(|bytes| *bytes <= MEMORY_MAX);
        bytes.map(Bytes::new).ok_or_else(|| self.fault("must be whole bytes from 0 to 1 PiB"))
    }

    /// Text that may be empty.
    pub fn text(&self) -> Result<&'a str, Fault> {
        if self.text.len() > TEXT_MAX || self.text.chars().any(char::is_control) {
            return Err(self.fault(&format!("must have at most {TEXT_MAX} printable characters")));
        }
        Ok(self.text)
    }

    /// Text that may not be empty.
    pub fn name(&self) -> Result<&'a str, Fault> {
        if self.is_empty() { Err(self.fault("needs a name")) } else { self.text() }
    }

    /// A finite number, as `f64` reads it.
    fn number(&self) -> Option<f64> {
        self.text.parse().ok().filter(|number: &f64| number.is_finite())
    }

    fn digits(&self) -> Option<u64> {
        let is_plain = self.text.bytes().all(|byte| byte.is_ascii_digit());
        if is_plain { self.text.parse().ok() } else { None }
    }
}

/// The time from one moment to a later one, both of the same line.
pub fn between(start: Millis, end: Value<'_>, ended: Millis) -> Result<Millis, Fault> {
    if ended < start {
        let began = start.as_secs_f64();
        return Err(end.fault(&format!("is before the job began, at {began} s")));
    }
    Ok(ended.saturating_sub(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Value<'_> {
        Value { column: "run_s", text }
    }

    #[test]
    fn t_09_times_that_no_job_has_are_refused_with_column_and_value() {
        assert_eq!(value("1.5").secs(), Ok(Millis::new(1_500)));
        assert_eq!(value("475.00000000000006").secs(), Ok(Millis::from_secs(475)));
        assert_eq!(value("0").secs(), Ok(Millis::ZERO));
        for wrong in ["", "-1", "nan", "inf", "1e300", "3155760001", "12 s", "0x10", "1,5"] {
            let fault = value(wrong).secs().unwrap_err();
            assert_eq!(fault.column, "run_s");
            assert!(fault.problem.contains(wrong) && fault.problem.contains("century"), "{fault:?}");
        }
        for wrong in ["", "-1", "1.5", "3155760000001", "99999999999999999999"] {
            assert!(value(wrong).millis().is_err(), "{wrong}");
        }
    }

    #[test]
    fn counts_are_whole_and_fractions_of_devices_are_rounded_up() {
        assert_eq!((value("4").count(1, 8), value("4.0").count(1, 8)), (Ok(4), Ok(4)));
        for wrong in ["0", "9", "1.5", "nan", "", "-4", "1e99"] {
            assert!(value(wrong).count(1, 8).is_err(), "{wrong}");
        }
        assert_eq!(value("460").round_up(1_000.0), Ok(Whole { count: 1, was_fraction: true }));
        assert_eq!(value("12000").round_up(1_000.0), Ok(Whole { count: 12, was_fraction: false }));
        assert!(value("-1").round_up(1.0).is_err() && value("1e12").round_up(1.0).is_err());
        assert_eq!(value("16384").size(1 << 20), Ok(Bytes::from_gib(16)));
        assert!(value("nan").size(1).is_err() && value("1e30").size(1).is_err() && value("1.5").bytes().is_err());
    }

    #[test]
    fn x_01_names_carry_no_control_characters() {
        let fault = value("a\u{1b}[2J").text().unwrap_err();
        assert!(!fault.problem.contains('\u{1b}'), "{fault:?}");
        assert!(value(&"a".repeat(257)).text().is_err() && value("").name().is_err());
        assert_eq!(value("").text(), Ok(""));
    }
}
