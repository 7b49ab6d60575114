//! The examples do what they say.

#[expect(dead_code, reason = "its `main` is for the command line")]
#[path = "../examples/camera.rs"]
mod camera;

#[test]
fn the_camera_loop_classifies_every_frame() {
    let device = nnburst::Device::embedded("nnapi-sample_all").unwrap();
    let told = camera::run(&device, 6).unwrap();
    println!("{told}");
    assert!(told.starts_with("6 frames, ") && told.contains("classes seen: ["), "{told}");
}
