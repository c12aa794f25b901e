use super::*;

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

fn parsed(line: &str) -> Result<(String, Option<u64>, Vec<String>), String> {
    let arguments = words(line);
    let run = parse_arguments(&arguments, &words("name schema")).map_err(|failure| failure.to_string())?;
    Ok((run.target.to_owned(), run.time.map(|it| it.as_secs()), run.options.to_vec()))
}

#[test]
fn target_runs_for_a_time_or_until_it_is_stopped() {
    assert_eq!(parsed("schema"), Ok(("schema".into(), None, vec![])));
    assert_eq!(parsed("schema --for 1h"), Ok(("schema".into(), Some(3_600), vec![])));
    assert_eq!(parsed("--for 1h30m5s name"), Ok(("name".into(), Some(5_405), vec![])));
    let with_options = parsed("name --for 90s -- -runs=3 -seed=1");
    assert_eq!(with_options, Ok(("name".into(), Some(90), words("-runs=3 -seed=1"))));
}

#[test]
fn errors_list_the_targets_and_show_a_valid_duration() {
    assert_eq!(parsed("").unwrap_err(), "`fuzz` needs a target: name, schema");
    assert_eq!(
        parsed("names").unwrap_err(),
        "there is no fuzz target `names`; the targets are: name, schema"
    );
    for time in ["1", "h", "0s", "1d", "1h30", "-1h", "99999999999999999999h", "9999999999999999999h"] {
        let error = parsed(&format!("name --for {time}")).unwrap_err();
        assert_eq!(
            error,
            format!("`{time}` is not a duration: write a number and a unit, for example `1h` or `30m`")
        );
    }
}

/// The manifest of the fuzz package must list every file in `fuzz/fuzz_targets`, because cargo-fuzz
/// cannot run other files.
#[test]
fn each_target_is_a_program_of_the_package() {
    let manifest = fs::read_to_string(root().join("fuzz/Cargo.toml")).unwrap();
    let mut named: Vec<_> =
        manifest.lines().filter_map(|line| line.strip_prefix("path = \"fuzz_targets/")).collect();
    named.sort_unstable();
    let files: Vec<_> = list_targets().unwrap().iter().map(|name| format!("{name}.rs\"")).collect();
    assert_eq!(named, files);
}
