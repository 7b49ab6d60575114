use super::*;

fn source(dir: &Path, text: &str, set: &[&str]) -> Source {
    let file = dir.join("serve.toml");
    std::fs::write(&file, text).unwrap();
    let set: Vec<_> = set.iter().map(|&set| set.to_owned()).collect();
    Source::new(Some(&file), &set).unwrap()
}

#[test]
fn users_have_what_everybody_has_where_nothing_is_said_of_them() {
    let dir = tempfile::tempdir().unwrap();
    let text = "idle = \"1 min\"\n[user]\nmodels = 2\nmemory = \"1 GiB\"\n\
                [users.root]\nmodels = 5\n\
                [users.77]\nclients = \"unlimited\"\nexecutions-per-second = 30\n";
    let set = ["threads=3", "user.models=4", "users.77.memory=2 GiB", "connection.bursts=8"];
    let serving = source(dir.path(), text, &set).load().unwrap();
    assert_eq!((serving.idle, serving.threads), (Some(Duration::from_secs(60)), Some(3)));
    let limits = serving.limits.clone();
    assert_eq!((limits.user.models, limits.user.memory_bytes), (4, 1 << 30));
    assert_eq!((limits.of(0).models, limits.of(0).memory_bytes), (5, 1 << 30));
    let one = limits.of(77);
    assert_eq!((one.clients, one.models, one.memory_bytes), (u64::MAX, 4, 2 << 30));
    assert_eq!((one.executions_per_second, limits.connection.bursts), (30, 8));
    let listed = listed(&serving);
    let value =
        |name: &str| listed.iter().find(|(known, _)| known == name).map(|(_, value)| &**value);
    assert_eq!(value("users.77.memory"), Some("2 GiB"));
    assert_eq!(value("users.77.models"), None, "as everybody");
    assert_eq!(value("user.clients"), Some("64"));
    let (fewer, begun) = (Serving { threads: None, ..serving.clone() }, serving);
    assert_eq!(fewer.needing_restart(&begun), ["threads"]);
}

#[test]
fn mistakes_are_told_with_their_lines_and_what_is_known() {
    let dir = tempfile::tempdir().unwrap();
    for (text, line, what) in [
        ("\n\nmodles = 4\n", 3, "expected one of `threads`, `idle`, `drain`, `user`"),
        ("[user]\nmodles = 4\n", 2, "unknown field `modles`, expected one of `clients`, `models`"),
        ("[user]\nmodels = -1\n", 2, "negative"),
        ("[user]\nmemory = \"4 gigs\"\n", 2, "\"4 GiB\""),
        ("idle = \"soon\"\n", 1, "no time"),
        ("threads = 0\n", 1, "nonzero"),
        ("[user\n", 1, ""),
    ] {
        let told = source(dir.path(), text, &[]).load().unwrap_err().message;
        let place = format!("serve.toml:{line}: ");
        assert!(told.contains(&place) && told.contains(what), "{text:?}: {told}");
    }
    let nobody = "[users.nobody-of-this-name]\nmodels = 1\n";
    let told = source(dir.path(), nobody, &[]).load().unwrap_err().message;
    assert!(told.contains("no such user"), "{told}");
    let told = Source::new(None, &["user.modles=4".to_owned()]).unwrap_err().message;
    assert!(told.contains("--set: unknown field `modles`"), "{told}");
    assert!(Source::new(None, &["models".to_owned()]).is_err());
}

#[test]
fn a_closed_source_knows_the_users_that_it_knew() {
    let dir = tempfile::tempdir().unwrap();
    let mut source = source(dir.path(), "[users.root]\nmodels = 1\n", &[]);
    source.load().unwrap();
    source.close();
    assert!(source.load().is_ok());
    std::fs::write(dir.path().join("serve.toml"), "[users.daemon]\nmodels = 1\n").unwrap();
    let told = source.load().unwrap_err().message;
    assert!(told.contains("write the uid"), "{told}");
}
