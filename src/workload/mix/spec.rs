//! What a mix is made from: commands as typed, their ratios, and what holds for all of them.

use super::data::DataSize;
use super::error::MixError;
use super::keys::Distribution;

/// One command of a mix, before it is compiled.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CommandSpec {
    /// The command's name and its arguments, with placeholders.
    pub words: Vec<String>,
    /// Its share of the mix, or its weight when the sum isn't 1; all commands have one, or none.
    pub ratio: Option<f64>,
    /// What it is called in output; the command itself when `None`.
    pub label: Option<String>,
    /// Its own size of `__data__` instead of the mix's.
    pub data: Option<DataSize>,
    /// Its own number of keys instead of the mix's.
    pub keys: Option<u64>,
}

impl CommandSpec {
    /// A command of words that are split already.
    #[must_use]
    pub fn new(words: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { words: words.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    /// A command in the quoting of a shell, as `--cmd` takes it.
    ///
    /// # Errors
    /// [`MixError::Quotes`] and [`MixError::EmptyCommand`].
    pub fn parse(text: &str) -> Result<Self, MixError> {
        let words = shell_words::split(text).map_err(|_| MixError::Quotes(text.to_owned()))?;
        if words.first().is_none_or(String::is_empty) {
            return Err(MixError::EmptyCommand);
        }
        Ok(Self { words, label: Some(text.trim().to_owned()), ..Self::default() })
    }

    /// What it is called in output.
    pub(super) fn shown(&self) -> String {
        self.label.clone().unwrap_or_else(|| shell_words::join(&self.words))
    }
}

/// What holds for all commands of a mix.
#[derive(Clone, Debug, PartialEq)]
pub struct MixOptions {
    /// Decides every choice, key, field and value.
    pub seed: u64,
    /// Keys that `__key__` is drawn from.
    pub keys: u64,
    /// How they are drawn.
    pub distribution: Distribution,
    /// What `__data__` stands for.
    pub data: DataSize,
    /// Fields that `__field__` is drawn from, each equally likely.
    pub field_range: u64,
    /// Fields of a hash, members of a set and elements of a list when prefilled.
    pub hash_fields: usize,
    /// Whether the keyspace is prefilled before the run, so that reads must find what was written.
    pub prefilled: bool,
}

impl Default for MixOptions {
    fn default() -> Self {
        Self {
            seed: 12_345,
            keys: 100_000,
            distribution: Distribution::Uniform,
            data: DataSize::Fixed(64),
            field_range: 10,
            hash_fields: 10,
            prefilled: false,
        }
    }
}

/// A sum of ratios this close to 1 is taken as 1.
const TOLERANCE: f64 = 0.01;

/// The share of each command, of sum 1, and a notice when the ratios had another sum.
pub(super) fn shares(specs: &[CommandSpec]) -> Result<(Vec<f64>, Option<String>), MixError> {
    if specs.iter().all(|spec| spec.ratio.is_none()) {
        return Ok((vec![1.0 / specs.len() as f64; specs.len()], None));
    }
    let mut ratios = Vec::with_capacity(specs.len());
    for spec in specs {
        let ratio = spec.ratio.ok_or_else(|| MixError::MissingRatio(spec.shown()))?;
        if !(0.0..f64::INFINITY).contains(&ratio) {
            return Err(MixError::BadRatio(ratio));
        }
        ratios.push(ratio);
    }
    let sum: f64 = ratios.iter().sum();
    if sum <= 0.0 || !sum.is_finite() {
        return Err(MixError::BadRatio(ratios[0]));
    }
    let notice = ((sum - 1.0).abs() > TOLERANCE + 1e-9).then(|| format!("the ratios sum to {sum:.3}, not 1: taken in proportion"));
    Ok((ratios.into_iter().map(|ratio| ratio / sum).collect(), notice))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(ratios: &[Option<f64>]) -> Vec<CommandSpec> {
        ratios.iter().map(|&ratio| CommandSpec { ratio, ..CommandSpec::new(["PING"]) }).collect()
    }

    #[test]
    fn a_command_is_split_as_a_shell_does() {
        let spec = CommandSpec::parse(r#" EVAL "return 'a b'" 1 __key__ '' "#).unwrap();
        assert_eq!(spec.words, ["EVAL", "return 'a b'", "1", "__key__", ""]);
        assert_eq!(spec.shown(), r#"EVAL "return 'a b'" 1 __key__ ''"#);
        assert_eq!(CommandSpec::parse("SET 'a"), Err(MixError::Quotes("SET 'a".to_owned())));
        for empty in ["", "  ", "''"] {
            assert_eq!(CommandSpec::parse(empty), Err(MixError::EmptyCommand), "{empty:?}");
        }
        assert_eq!(CommandSpec::new(["SET", "__key__", "a b"]).shown(), "SET __key__ 'a b'");
    }

    #[test]
    fn ratios_near_one_are_taken_and_others_announced() {
        let (shares_taken, notice) = shares(&with(&[Some(0.25), Some(0.74)])).unwrap();
        assert!(notice.is_none() && (shares_taken.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        let (shares_taken, notice) = shares(&with(&[Some(1.0), Some(3.0)])).unwrap();
        assert_eq!(shares_taken, [0.25, 0.75]);
        assert!(notice.unwrap().contains("4.000"));
        assert_eq!(shares(&with(&[None, None])).unwrap(), (vec![0.5, 0.5], None));
    }

    #[test]
    fn ratios_that_are_no_shares_are_refused() {
        for bad in [-0.5, f64::NAN, f64::INFINITY] {
            assert!(matches!(shares(&with(&[Some(1.0), Some(bad)])), Err(MixError::BadRatio(_))), "{bad}");
        }
        assert!(matches!(shares(&with(&[Some(0.0), Some(0.0)])), Err(MixError::BadRatio(_))));
        assert!(matches!(shares(&with(&[Some(0.5), None])), Err(MixError::MissingRatio(_))));
        let mut commands = with(&[None, None]);
        let error = super::super::Mix::ratios(&mut commands, &[1.0]).unwrap_err().to_string();
        assert!(error.starts_with("1 ratios were given for 2 commands"), "{error}");
        super::super::Mix::ratios(&mut commands, &[0.3, 0.7]).unwrap();
        assert_eq!(commands[1].ratio, Some(0.7));
    }
}
