//! The option `sd_placement`: which tables go to the speed disk.

use super::values::{OptionValue, ValueError};
use spanlith_base::Error;
use spanlith_speed::Policy;

/// Which tables go to the speed disk: `pl`, `lad:N` or `auto`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SdPlacement(pub Policy);

impl OptionValue for SdPlacement {
    fn print(&self) -> String {
        self.0.to_string()
    }

    fn parse_into(&mut self, text: &str) -> Result<(), ValueError> {
        let parsed = text.trim().parse();
        let policy = parsed.map_err(|()| {
            ValueError::Other(Error::invalid_argument(format!(
                "sd_placement: {text}: not pl, lad:N with N up to 64, or auto"
            )))
        });
        self.0 = policy?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_policies_and_others_are_refused() {
        let mut value = SdPlacement::default();
        assert_eq!(value.print(), "auto");
        for text in ["pl", "lad:3", "auto"] {
            assert!(value.parse_into(text).is_ok());
            assert_eq!(value.print(), text);
        }
        for text in ["", "lad", "lad:99", "top"] {
            assert!(value.parse_into(text).is_err(), "{text}");
            assert_eq!(value.print(), "auto");
        }
    }
}
