//! The flags that every verb shares to say what is measured against.

use std::path::PathBuf;

use super::spec::parse_urls;
use super::{Kind, Layout, TargetError, TargetSpec};
use crate::net::Endpoint;

/// Which Redis to measure against.
#[derive(Clone, Default, clap::Args)]
#[command(next_help_heading = "Target")]
pub struct TargetArgs {
    /// Redis URL, or several seeds of a cluster separated by commas: redis://, rediss:// or redis+unix://
    #[arg(long, env = "REDIS_URL", hide_env_values = true, value_name = "URL")]
    pub url: Option<String>,

    /// How the target is provided; auto takes the URL, else a container, else a process
    #[arg(long = "target", env = "RCB_TARGET_KIND", value_enum, default_value = "auto", value_name = "KIND")]
    pub kind: Option<Kind>,

    /// Image of a container target, redis or valkey (implies --target container) [default: redis:8]
    #[arg(long, env = "RCB_IMAGE", value_name = "IMAGE")]
    pub image: Option<String>,

    /// Server program of a process target (implies --target process) [default: redis-server or valkey-server on PATH]
    #[arg(long, env = "RCB_SERVER_BIN", value_name = "PATH")]
    pub server_bin: Option<PathBuf>,

    /// standalone, cluster (3x1) or MASTERSxREPLICAS [default: what the URL's server is, else standalone]
    #[arg(long, env = "RCB_TOPOLOGY", value_name = "TOPOLOGY")]
    pub topology: Option<Layout>,

    /// Further argument for a server that we start, once per word: --server-arg=--io-threads --server-arg=2
    #[arg(long = "server-arg", value_name = "WORD", allow_hyphen_values = true)]
    pub extra: Vec<String>,
}

impl std::fmt::Debug for TargetArgs {
    /// Without the URL as it was typed: it may hold a password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TargetArgs")
            .field("url", &self.url.as_ref().map(|_| "***"))
            .field("kind", &self.kind)
            .field("image", &self.image)
            .field("server_bin", &self.server_bin)
            .field("topology", &self.topology)
            .field("extra", &self.extra)
            .finish()
    }
}

impl TargetArgs {
    /// The spec that these flags ask for.
    ///
    /// `REDIS_URL` gives way to flags that force another kind; a `--url` beside them is an error.
    ///
    /// # Errors
    /// Flags that contradict each other, and a URL that can't be read.
    pub fn spec(&self) -> Result<TargetSpec, TargetError> {
        self.spec_with(std::env::var("REDIS_URL").ok().as_deref())
    }

    fn spec_with(&self, variable: Option<&str>) -> Result<TargetSpec, TargetError> {
        let usage = |text: &str| Err(TargetError::Usage(text.to_owned()));
        let url = self.url.as_deref().filter(|url| !url.is_empty());
        let from_variable = url == variable;
        let forced = match (self.kind.unwrap_or_default(), &self.image, &self.server_bin) {
            (_, Some(_), Some(_)) => return usage("--image and --server-bin are two kinds of target; give one of them"),
            (Kind::Auto | Kind::Container, Some(_), None) => Kind::Container,
            (Kind::Auto | Kind::Process, None, Some(_)) => Kind::Process,
            (kind, Some(_), None) => return usage(&format!("--image needs --target container, not {kind}")),
            (kind, None, Some(_)) => return usage(&format!("--server-bin needs --target process, not {kind}")),
            (kind, None, None) => kind,
        };
        let mut urls: Vec<Endpoint> = Vec::new();
        match (forced, url) {
            (Kind::Auto | Kind::Url, Some(url)) => urls = parse_urls(url)?,
            (Kind::Url, None) => return usage("--target url needs --url or REDIS_URL"),
            (Kind::Container | Kind::Process, Some(_)) if !from_variable => {
                return usage(&format!("--url names a server that runs already, which is not a {forced}; give one of them"));
            }
            _ => {}
        }
        if !self.extra.is_empty() && !urls.is_empty() {
            return usage("--server-arg is for a server that we start, not for one given by --url");
        }
        Ok(TargetSpec {
            kind: if urls.is_empty() { forced } else { Kind::Url },
            urls,
            image: self.image.clone(),
            server_bin: self.server_bin.clone(),
            layout: self.topology,
            extra: self.extra.clone(),
            ..TargetSpec::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(flags: TargetArgs, variable: Option<&str>) -> Result<TargetSpec, String> {
        let url = flags.url.clone().or(variable.map(str::to_owned));
        TargetArgs { url, ..flags }.spec_with(variable).map_err(|error| error.to_string())
    }

    #[test]
    fn a_url_in_the_environment_gives_way_to_a_forced_kind_and_a_flag_does_not() {
        let variable = Some("redis://:hunter2@env:1");
        assert_eq!(spec(TargetArgs::default(), variable).unwrap().kind, Kind::Url);
        let image = TargetArgs { image: Some("valkey/valkey:8".into()), ..TargetArgs::default() };
        assert_eq!(spec(image.clone(), variable).unwrap().kind, Kind::Container);
        let process = TargetArgs { kind: Some(Kind::Process), ..TargetArgs::default() };
        assert!(spec(process.clone(), variable).unwrap().urls.is_empty());
        for flags in [image, process] {
            let error = spec(TargetArgs { url: Some("redis://:hunter2@flag:1".into()), ..flags }, variable).unwrap_err();
            assert!(error.contains("--url") && !error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn contradictions_are_told() {
        let both = TargetArgs { image: Some("redis:8".into()), server_bin: Some("redis-server".into()), ..TargetArgs::default() };
        assert!(spec(both, None).unwrap_err().contains("--image and --server-bin"));
        let url = TargetArgs { kind: Some(Kind::Url), ..TargetArgs::default() };
        assert!(spec(url, None).unwrap_err().contains("needs --url"));
        let wrong = TargetArgs { kind: Some(Kind::Process), image: Some("redis:8".into()), ..TargetArgs::default() };
        assert!(spec(wrong, None).unwrap_err().contains("--target container, not process"));
        assert_eq!(spec(TargetArgs::default(), None).unwrap().kind, Kind::Auto);
    }

    #[test]
    fn help_and_debug_never_show_the_url_of_the_environment() {
        #[derive(Debug, clap::Parser)]
        struct Tool {
            #[command(flatten)]
            target: TargetArgs,
        }
        let tool = <Tool as clap::Parser>::try_parse_from(["tool", "--url", "redis://:hunter2@h", "--topology", "2x1"]).unwrap();
        assert!(!format!("{tool:?}").contains("hunter2"));
        assert_eq!(tool.target.topology, Some(Layout::Cluster { masters: 2, replicas_each: 1 }));
        let help = <Tool as clap::CommandFactory>::command().render_long_help().to_string();
        assert!(help.contains("[env: REDIS_URL]"), "{help}");
    }
}
