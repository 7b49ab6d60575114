//! The examples do what they say.

#[expect(dead_code, reason = "its `main` is for the command line")]
#[path = "../examples/camera.rs"]
mod camera;

#[expect(dead_code, reason = "its `main` is for the command line")]
#[path = "../examples/tokio.rs"]
mod two_cameras;

#[tokio::test]
async fn two_cameras_are_awaited_in_tokio() {
    let device = nnburst::Device::embedded("nnapi-sample_all").unwrap();
    let (latencies, ticks) = two_cameras::run(device, 20).await.unwrap();
    assert_eq!(latencies.len(), 40);
    assert!(ticks > 0);
}

#[test]
fn the_camera_loop_accounts_for_every_picture() {
    let device = nnburst::Device::embedded("nnapi-sample_all").unwrap();
    let told = camera::run(&device, 6).unwrap();
    println!("{told}");
    // On a busy machine a picture may be skipped; each is classified, skipped or lost.
    let count = |what: &str| {
        let before = told
            .split(what)
            .next()
            .and_then(|text| text.split([' ', ',']).rfind(|word| !word.is_empty()));
        before.and_then(|word| word.parse::<u32>().ok())
    };
    let all = [" pictures", " skipped", " lost"].map(count);
    assert_eq!(all.into_iter().sum::<Option<u32>>(), Some(6), "{told}");
    assert!(told.contains("classes seen: ["), "{told}");
}
