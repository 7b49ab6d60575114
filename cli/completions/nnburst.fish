# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_nnburst_global_optspecs
    string join \n h/help V/version
end

function __fish_nnburst_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_nnburst_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_nnburst_using_subcommand
    set -l cmd (__fish_nnburst_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c nnburst -n "__fish_nnburst_needs_command" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c nnburst -n "__fish_nnburst_needs_command" -s V -l version -d 'Print version'
complete -c nnburst -n "__fish_nnburst_needs_command" -f -a "demo" -d 'Show what a burst is worth: a driver in a process of its own, a built-in network, a table of latencies'
complete -c nnburst -n "__fish_nnburst_needs_command" -f -a "run" -d 'Run a model on raw tensors, or classify a photo'
complete -c nnburst -n "__fish_nnburst_needs_command" -f -a "bench" -d 'Measure the latency of models'
complete -c nnburst -n "__fish_nnburst_needs_command" -f -a "devices" -d 'List the devices and what they say of themselves'
complete -c nnburst -n "__fish_nnburst_needs_command" -f -a "check" -d 'Say for each operation of a model whether a device takes it, and why not'
complete -c nnburst -n "__fish_nnburst_needs_command" -f -a "doctor" -d 'Say whether this machine lets bursts be quick, what to do where not, and what is set'
complete -c nnburst -n "__fish_nnburst_needs_command" -f -a "dot" -d 'Print a model as a graph for Graphviz'
complete -c nnburst -n "__fish_nnburst_needs_command" -f -a "serve" -d 'Serve a driver to other processes until stopped'
complete -c nnburst -n "__fish_nnburst_needs_command" -f -a "vts" -d 'Run a folder of conformance cases'
complete -c nnburst -n "__fish_nnburst_needs_command" -f -a "top" -d 'Watch the services that run, their clients, models and bursts: a table that renews itself'
complete -c nnburst -n "__fish_nnburst_needs_command" -f -a "dump" -d 'Print the clients, models and bursts of the services that run, once'
complete -c nnburst -n "__fish_nnburst_needs_command" -f -a "trace" -d 'Write the spans of a model\'s requests, or of any program\'s, in all processes that take part, to one file for Perfetto'
complete -c nnburst -n "__fish_nnburst_needs_command" -f -a "metrics" -d 'Tell Prometheus of the services that run: as a server of its own, or in a file'
complete -c nnburst -n "__fish_nnburst_needs_command" -f -a "mlts" -d 'Run the acceptance suite on a driver: accuracy, latency, support, crash tests, report'
complete -c nnburst -n "__fish_nnburst_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c nnburst -n "__fish_nnburst_using_subcommand demo" -l quick -d 'A tenth of the frames, for a quick look'
complete -c nnburst -n "__fish_nnburst_using_subcommand demo" -l json -d 'One JSON object per row instead of the table'
complete -c nnburst -n "__fish_nnburst_using_subcommand demo" -s h -l help -d 'Print help'
complete -c nnburst -n "__fish_nnburst_using_subcommand run" -l builtin -d 'A network that needs no file instead' -r
complete -c nnburst -n "__fish_nnburst_using_subcommand run" -l image -d 'A JPEG or PNG to classify, `-` for standard input; or a folder, whose photos are classified one after the other, by name' -r -F
complete -c nnburst -n "__fish_nnburst_using_subcommand run" -l input -d 'Raw little-endian bytes of an input, by its number or its name, in the type that the model\'s file gives it, such as 0=frame.bin; inputs left out are zeros. Of a device, a FIFO or standard input (`0=-`) as many are read as the input takes' -r
complete -c nnburst -n "__fish_nnburst_using_subcommand run" -l labels -d 'Names of the classes, one a line, as many as the first output has elements [default: those that the model\'s file packs]' -r -F
complete -c nnburst -n "__fish_nnburst_using_subcommand run" -l top -d 'The number of classes to show' -r
complete -c nnburst -n "__fish_nnburst_using_subcommand run" -l output -d 'Write the outputs to out0.bin, out1.bin and so on in this folder, in the types of the model\'s file' -r -F
complete -c nnburst -n "__fish_nnburst_using_subcommand run" -l steps -d 'Run on N consecutive inputs of each file, the model\'s state kept in between' -r
complete -c nnburst -n "__fish_nnburst_using_subcommand run" -l reset-every -d 'Start anew, the model\'s state as before the first step, every N steps' -r
complete -c nnburst -n "__fish_nnburst_using_subcommand run" -l signature -d 'The signature to compute, where the model\'s file has several: its graph, whose inputs and outputs have the signature\'s names [default: the first graph]' -r
complete -c nnburst -n "__fish_nnburst_using_subcommand run" -l shape -d 'The shape of an input, such as image=1x320x320x3, where the model\'s file leaves it open or has another' -r
complete -c nnburst -n "__fish_nnburst_using_subcommand run" -l batch -d 'Requests that the model computes at once, where its file is made for one: the first extent of all inputs and outputs' -r
complete -c nnburst -n "__fish_nnburst_using_subcommand run" -l hybrid -d 'The arithmetic of float layers with compressed weights' -r -f -a "tflite\t'Activations are quantised on the fly, as TFLite does, where the device can'
widened\t'Weights are widened to floats'"
complete -c nnburst -n "__fish_nnburst_using_subcommand run" -l period -d 'Milliseconds from call to call, as a camera or sound card would pace them [default: back to back]' -r
complete -c nnburst -n "__fish_nnburst_using_subcommand run" -l device -d '`embedded` (the driver in this process), `spawn:NAME` (a driver in a process of its own), `nnapi-reference`, or the name of a service [default: spawn:nnburst-cpu, embedded with --mode inproc; `run` prefers a service that takes all of the model]' -r
complete -c nnburst -n "__fish_nnburst_using_subcommand run" -l mode -d 'The kind of call that executes' -r -f -a "inproc\t'The plan in this process, without any queue or socket'
sync\t'One call over the control connection'
async\t'A call that returns at once and a callback'
fenced\t'A call that returns a sync fence'
burst\t'A packet through a queue in shared memory'"
complete -c nnburst -n "__fish_nnburst_using_subcommand run" -l threads -d 'Threads that compute one execution' -r
complete -c nnburst -n "__fish_nnburst_using_subcommand run" -l hint -d 'A precision hint: the model is computed faster and less exactly. It is taken for one that allows relaxed precision; a service that runs already follows its own hint' -r -f -a "bf16\t'Factors of float convolutions and products are rounded to 8 bits of precision (16-bit numbers)'"
complete -c nnburst -n "__fish_nnburst_using_subcommand run" -l wait -d 'The strategy by which both ends of a burst wait for each other [default: adaptive, block with --preference low-power]' -r -f -a "spin\t'Poll; the shortest latency, a core each'
adaptive\t'Poll as long as recent waits were short, then sleep'
block\t'Sleep at once'"
complete -c nnburst -n "__fish_nnburst_using_subcommand run" -l priority -d 'The model\'s priority among all that the device computes for this user' -r -f -a "low\t'After all others'
medium\t'As usual'
high\t'Before all others'"
complete -c nnburst -n "__fish_nnburst_using_subcommand run" -l preference -d 'The model\'s user\'s execution preference' -r -f -a "low-power\t'Little energy'
fast-single-answer\t'One answer as soon as possible'
sustained-speed\t'A lasting rate, such as a camera\'s frames'"
complete -c nnburst -n "__fish_nnburst_using_subcommand run" -l deadline -d 'Milliseconds that each execution may take. Those that take longer are counted, and the exit code is 4' -r
complete -c nnburst -n "__fish_nnburst_using_subcommand run" -l cpus -d 'Processors to run on: one for this process and one for the driver\'s burst thread' -r
complete -c nnburst -n "__fish_nnburst_using_subcommand run" -l json -d 'Print one JSON object; one per photo of a folder'
complete -c nnburst -n "__fish_nnburst_using_subcommand run" -l realtime -d 'Ask for real-time scheduling and locked memory; what is refused is said'
complete -c nnburst -n "__fish_nnburst_using_subcommand run" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c nnburst -n "__fish_nnburst_using_subcommand bench" -l builtin -d 'Measure networks that need no file' -r
complete -c nnburst -n "__fish_nnburst_using_subcommand bench" -l runs -d 'Calls to measure, of each stream' -r
complete -c nnburst -n "__fish_nnburst_using_subcommand bench" -l duration -d 'Measure for so long instead, such as 10s or 5m' -r
complete -c nnburst -n "__fish_nnburst_using_subcommand bench" -l warmup -d 'Calls before that, or a time, which count for nothing [default: a tenth of what is measured, 3 to 1000 calls]' -r
complete -c nnburst -n "__fish_nnburst_using_subcommand bench" -l streams -d 'Callers at the same time, each with a model and a burst of its own on the same device; with --period each at its own moment of it' -r
complete -c nnburst -n "__fish_nnburst_using_subcommand bench" -l amplitude -d 'Float inputs lie between minus this and this; 1e-40 is a signal that has faded away' -r
complete -c nnburst -n "__fish_nnburst_using_subcommand bench" -l hgrm -d 'Write the distribution of the latencies of the only model, in microseconds, as tools for HdrHistogram draw it; with --period from when each call was due' -r -F
complete -c nnburst -n "__fish_nnburst_using_subcommand bench" -l signature -d 'The signature to compute, where the model\'s file has several: its graph, whose inputs and outputs have the signature\'s names [default: the first graph]' -r
complete -c nnburst -n "__fish_nnburst_using_subcommand bench" -l shape -d 'The shape of an input, such as image=1x320x320x3, where the model\'s file leaves it open or has another' -r
complete -c nnburst -n "__fish_nnburst_using_subcommand bench" -l batch -d 'Requests that the model computes at once, where its file is made for one: the first extent of all inputs and outputs' -r
complete -c nnburst -n "__fish_nnburst_using_subcommand bench" -l hybrid -d 'The arithmetic of float layers with compressed weights' -r -f -a "tflite\t'Activations are quantised on the fly, as TFLite does, where the device can'
widened\t'Weights are widened to floats'"
complete -c nnburst -n "__fish_nnburst_using_subcommand bench" -l period -d 'Milliseconds from call to call, as a camera or sound card would pace them [default: back to back]' -r
complete -c nnburst -n "__fish_nnburst_using_subcommand bench" -l device -d '`embedded` (the driver in this process), `spawn:NAME` (a driver in a process of its own), `nnapi-reference`, or the name of a service [default: spawn:nnburst-cpu, embedded with --mode inproc; `run` prefers a service that takes all of the model]' -r
complete -c nnburst -n "__fish_nnburst_using_subcommand bench" -l mode -d 'The kind of call that executes' -r -f -a "inproc\t'The plan in this process, without any queue or socket'
sync\t'One call over the control connection'
async\t'A call that returns at once and a callback'
fenced\t'A call that returns a sync fence'
burst\t'A packet through a queue in shared memory'"
complete -c nnburst -n "__fish_nnburst_using_subcommand bench" -l threads -d 'Threads that compute one execution' -r
complete -c nnburst -n "__fish_nnburst_using_subcommand bench" -l hint -d 'A precision hint: the model is computed faster and less exactly. It is taken for one that allows relaxed precision; a service that runs already follows its own hint' -r -f -a "bf16\t'Factors of float convolutions and products are rounded to 8 bits of precision (16-bit numbers)'"
complete -c nnburst -n "__fish_nnburst_using_subcommand bench" -l wait -d 'The strategy by which both ends of a burst wait for each other [default: adaptive, block with --preference low-power]' -r -f -a "spin\t'Poll; the shortest latency, a core each'
adaptive\t'Poll as long as recent waits were short, then sleep'
block\t'Sleep at once'"
complete -c nnburst -n "__fish_nnburst_using_subcommand bench" -l priority -d 'The model\'s priority among all that the device computes for this user' -r -f -a "low\t'After all others'
medium\t'As usual'
high\t'Before all others'"
complete -c nnburst -n "__fish_nnburst_using_subcommand bench" -l preference -d 'The model\'s user\'s execution preference' -r -f -a "low-power\t'Little energy'
fast-single-answer\t'One answer as soon as possible'
sustained-speed\t'A lasting rate, such as a camera\'s frames'"
complete -c nnburst -n "__fish_nnburst_using_subcommand bench" -l deadline -d 'Milliseconds that each execution may take. Those that take longer are counted, and the exit code is 4' -r
complete -c nnburst -n "__fish_nnburst_using_subcommand bench" -l cpus -d 'Processors to run on: one for this process and one for the driver\'s burst thread' -r
complete -c nnburst -n "__fish_nnburst_using_subcommand bench" -l profile -d 'Say where the time goes instead: a row per step of the plan, computed in this process, with its share of what this machine could do'
complete -c nnburst -n "__fish_nnburst_using_subcommand bench" -l ceiling -d 'Measure this machine instead: the arithmetic and the memory of one core'
complete -c nnburst -n "__fish_nnburst_using_subcommand bench" -l cache -d 'Prepare each model into a cache, and measure what is loaded from there; `compile_ms` is then the loading'
complete -c nnburst -n "__fish_nnburst_using_subcommand bench" -l json -d 'Print one JSON object per model'
complete -c nnburst -n "__fish_nnburst_using_subcommand bench" -l csv -d 'Print comma-separated values, a row per model'
complete -c nnburst -n "__fish_nnburst_using_subcommand bench" -l realtime -d 'Ask for real-time scheduling and locked memory; what is refused is said'
complete -c nnburst -n "__fish_nnburst_using_subcommand bench" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c nnburst -n "__fish_nnburst_using_subcommand devices" -l json -d 'Print one JSON object per device'
complete -c nnburst -n "__fish_nnburst_using_subcommand devices" -s h -l help -d 'Print help'
complete -c nnburst -n "__fish_nnburst_using_subcommand check" -l builtin -d 'A network that needs no file instead' -r
complete -c nnburst -n "__fish_nnburst_using_subcommand check" -l device -d 'The device to ask [default: embedded]' -r
complete -c nnburst -n "__fish_nnburst_using_subcommand check" -l devices -d 'Say how the model would be spread over these devices, and why' -r
complete -c nnburst -n "__fish_nnburst_using_subcommand check" -l signature -d 'The signature to compute, where the model\'s file has several: its graph, whose inputs and outputs have the signature\'s names [default: the first graph]' -r
complete -c nnburst -n "__fish_nnburst_using_subcommand check" -l shape -d 'The shape of an input, such as image=1x320x320x3, where the model\'s file leaves it open or has another' -r
complete -c nnburst -n "__fish_nnburst_using_subcommand check" -l batch -d 'Requests that the model computes at once, where its file is made for one: the first extent of all inputs and outputs' -r
complete -c nnburst -n "__fish_nnburst_using_subcommand check" -l hybrid -d 'The arithmetic of float layers with compressed weights' -r -f -a "tflite\t'Activations are quantised on the fly, as TFLite does, where the device can'
widened\t'Weights are widened to floats'"
complete -c nnburst -n "__fish_nnburst_using_subcommand check" -l json -d 'Print one JSON object'
complete -c nnburst -n "__fish_nnburst_using_subcommand check" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c nnburst -n "__fish_nnburst_using_subcommand doctor" -l json -d 'Print one JSON object'
complete -c nnburst -n "__fish_nnburst_using_subcommand doctor" -s h -l help -d 'Print help'
complete -c nnburst -n "__fish_nnburst_using_subcommand dot" -l builtin -d 'A network that needs no file instead' -r
complete -c nnburst -n "__fish_nnburst_using_subcommand dot" -l signature -d 'The signature to compute, where the model\'s file has several: its graph, whose inputs and outputs have the signature\'s names [default: the first graph]' -r
complete -c nnburst -n "__fish_nnburst_using_subcommand dot" -l shape -d 'The shape of an input, such as image=1x320x320x3, where the model\'s file leaves it open or has another' -r
complete -c nnburst -n "__fish_nnburst_using_subcommand dot" -l batch -d 'Requests that the model computes at once, where its file is made for one: the first extent of all inputs and outputs' -r
complete -c nnburst -n "__fish_nnburst_using_subcommand dot" -l hybrid -d 'The arithmetic of float layers with compressed weights' -r -f -a "tflite\t'Activations are quantised on the fly, as TFLite does, where the device can'
widened\t'Weights are widened to floats'"
complete -c nnburst -n "__fish_nnburst_using_subcommand dot" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c nnburst -n "__fish_nnburst_using_subcommand serve" -l driver -d 'The driver: nnburst-cpu, or a sample driver such as nnapi-sample_all' -r
complete -c nnburst -n "__fish_nnburst_using_subcommand serve" -l fd -d 'Serve one client on this inherited socket, and end when it disconnects' -r
complete -c nnburst -n "__fish_nnburst_using_subcommand serve" -l threads -d 'Threads that compute one execution [default: 1]' -r
complete -c nnburst -n "__fish_nnburst_using_subcommand serve" -l hint -d 'A precision hint: models that allow relaxed precision are computed faster and less exactly' -r -f -a "bf16\t'Factors of float convolutions and products are rounded to 8 bits of precision (16-bit numbers)'"
complete -c nnburst -n "__fish_nnburst_using_subcommand serve" -l config -d 'The file of limits and idle times, which SIGHUP has read again [default: ~/.config/nnburst/serve.toml, else /etc/nnburst/serve.toml, where there is one]' -r -F
complete -c nnburst -n "__fish_nnburst_using_subcommand serve" -l set -d 'A setting of that file, such as user.models=16, user.memory=2GiB or users.camera.realtime-bursts=1; it counts before the file' -r
complete -c nnburst -n "__fish_nnburst_using_subcommand serve" -l log-format -d 'The form of the log [default: journal where standard error is the journal\'s, else plain]' -r -f -a "plain\t'Lines for people'
json\t'A JSON object per line'
journal\t'Entries of systemd\'s journal, with fields'"
complete -c nnburst -n "__fish_nnburst_using_subcommand serve" -l calibrate -d 'First measure the driver\'s figures on this machine; they are kept for its next starts'
complete -c nnburst -n "__fish_nnburst_using_subcommand serve" -l take-over -d 'Take the name over from a process that serves the driver: it keeps the clients that it has, and ends when they have gone; those that come from now on come here'
complete -c nnburst -n "__fish_nnburst_using_subcommand serve" -l reload -d 'Reload of the service, as its manager runs it (ExecReload=), with the arguments of the service beside: has its process MAINPID read the file of limits again or, where the program was replaced since that began, starts the program anew to take the place of that process'
complete -c nnburst -n "__fish_nnburst_using_subcommand serve" -l no-sandbox -d 'Keep this user\'s rights while serving: files, sockets, programs. Without them, a client that takes the driver over by a fault of its code gets no further than the driver'
complete -c nnburst -n "__fish_nnburst_using_subcommand serve" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c nnburst -n "__fish_nnburst_using_subcommand vts" -l filter -d 'Only cases whose name contains this' -r
complete -c nnburst -n "__fish_nnburst_using_subcommand vts" -l api -d 'Through which interface. With ndk, devices are those of the library: nnapi-reference where none is named' -r -f -a "rust\t'The Rust interface of this program'
ndk\t'The C interface: libneuralnetworks.so, loaded at run time'"
complete -c nnburst -n "__fish_nnburst_using_subcommand vts" -l device -d '`embedded` (the driver in this process), `spawn:NAME` (a driver in a process of its own), `nnapi-reference`, or the name of a service [default: spawn:nnburst-cpu, embedded with --mode inproc; `run` prefers a service that takes all of the model]' -r
complete -c nnburst -n "__fish_nnburst_using_subcommand vts" -l mode -d 'The kind of call that executes' -r -f -a "inproc\t'The plan in this process, without any queue or socket'
sync\t'One call over the control connection'
async\t'A call that returns at once and a callback'
fenced\t'A call that returns a sync fence'
burst\t'A packet through a queue in shared memory'"
complete -c nnburst -n "__fish_nnburst_using_subcommand vts" -l threads -d 'Threads that compute one execution' -r
complete -c nnburst -n "__fish_nnburst_using_subcommand vts" -l hint -d 'A precision hint: the model is computed faster and less exactly. It is taken for one that allows relaxed precision; a service that runs already follows its own hint' -r -f -a "bf16\t'Factors of float convolutions and products are rounded to 8 bits of precision (16-bit numbers)'"
complete -c nnburst -n "__fish_nnburst_using_subcommand vts" -l wait -d 'The strategy by which both ends of a burst wait for each other [default: adaptive, block with --preference low-power]' -r -f -a "spin\t'Poll; the shortest latency, a core each'
adaptive\t'Poll as long as recent waits were short, then sleep'
block\t'Sleep at once'"
complete -c nnburst -n "__fish_nnburst_using_subcommand vts" -l priority -d 'The model\'s priority among all that the device computes for this user' -r -f -a "low\t'After all others'
medium\t'As usual'
high\t'Before all others'"
complete -c nnburst -n "__fish_nnburst_using_subcommand vts" -l preference -d 'The model\'s user\'s execution preference' -r -f -a "low-power\t'Little energy'
fast-single-answer\t'One answer as soon as possible'
sustained-speed\t'A lasting rate, such as a camera\'s frames'"
complete -c nnburst -n "__fish_nnburst_using_subcommand vts" -l deadline -d 'Milliseconds that each execution may take. Those that take longer are counted, and the exit code is 4' -r
complete -c nnburst -n "__fish_nnburst_using_subcommand vts" -l cpus -d 'Processors to run on: one for this process and one for the driver\'s burst thread' -r
complete -c nnburst -n "__fish_nnburst_using_subcommand vts" -l dynamic-shapes -d 'Leave the shapes of the outputs open, and expect the driver to report them'
complete -c nnburst -n "__fish_nnburst_using_subcommand vts" -l insufficient-size -d 'Make the first output\'s buffer a byte too short, and expect the driver to say so'
complete -c nnburst -n "__fish_nnburst_using_subcommand vts" -l signed-twins -d 'Run the signed twin of each case with unsigned 8-bit operands'
complete -c nnburst -n "__fish_nnburst_using_subcommand vts" -l all-tensors-as-inputs -d 'Feed constant tensors (weights, shapes, axes) as inputs'
complete -c nnburst -n "__fish_nnburst_using_subcommand vts" -l all-inputs-as-internal -d 'Have every suitable input made by an ADD in front of the model, so that it is a temporary'
complete -c nnburst -n "__fish_nnburst_using_subcommand vts" -l device-memory -d 'Put the arguments into buffers that the driver manages'
complete -c nnburst -n "__fish_nnburst_using_subcommand vts" -l cache -d 'Prepare each model into a cache, and run what is loaded from there'
complete -c nnburst -n "__fish_nnburst_using_subcommand vts" -l json -d 'Print one JSON object at the end'
complete -c nnburst -n "__fish_nnburst_using_subcommand vts" -l realtime -d 'Ask for real-time scheduling and locked memory; what is refused is said'
complete -c nnburst -n "__fish_nnburst_using_subcommand vts" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c nnburst -n "__fish_nnburst_using_subcommand top" -l interval -d 'Milliseconds from look to look' -r
complete -c nnburst -n "__fish_nnburst_using_subcommand top" -l rounds -d 'Ends after so many looks [default: when stopped]' -r
complete -c nnburst -n "__fish_nnburst_using_subcommand top" -l json -d 'Print one JSON object per service, with its clients, models and bursts in it'
complete -c nnburst -n "__fish_nnburst_using_subcommand top" -l csv -d 'Print comma-separated values: a row per service, client, model and burst'
complete -c nnburst -n "__fish_nnburst_using_subcommand top" -s h -l help -d 'Print help'
complete -c nnburst -n "__fish_nnburst_using_subcommand dump" -l window -d 'Look for so many milliseconds, and tell rates and percentiles of these [default: since each model and burst is there]' -r
complete -c nnburst -n "__fish_nnburst_using_subcommand dump" -l json -d 'Print one JSON object per service, with its clients, models and bursts in it'
complete -c nnburst -n "__fish_nnburst_using_subcommand dump" -l csv -d 'Print comma-separated values: a row per service, client, model and burst'
complete -c nnburst -n "__fish_nnburst_using_subcommand dump" -s h -l help -d 'Print help'
complete -c nnburst -n "__fish_nnburst_using_subcommand trace" -l builtin -d 'A network that needs no file instead' -r
complete -c nnburst -n "__fish_nnburst_using_subcommand trace" -s o -l output -d 'The file; one that is there is replaced. ui.perfetto.dev and chrome://tracing open it' -r -F
complete -c nnburst -n "__fish_nnburst_using_subcommand trace" -l runs -d 'Requests, after as many to warm up as `bench` has' -r
complete -c nnburst -n "__fish_nnburst_using_subcommand trace" -l signature -d 'The signature to compute, where the model\'s file has several: its graph, whose inputs and outputs have the signature\'s names [default: the first graph]' -r
complete -c nnburst -n "__fish_nnburst_using_subcommand trace" -l shape -d 'The shape of an input, such as image=1x320x320x3, where the model\'s file leaves it open or has another' -r
complete -c nnburst -n "__fish_nnburst_using_subcommand trace" -l batch -d 'Requests that the model computes at once, where its file is made for one: the first extent of all inputs and outputs' -r
complete -c nnburst -n "__fish_nnburst_using_subcommand trace" -l hybrid -d 'The arithmetic of float layers with compressed weights' -r -f -a "tflite\t'Activations are quantised on the fly, as TFLite does, where the device can'
widened\t'Weights are widened to floats'"
complete -c nnburst -n "__fish_nnburst_using_subcommand trace" -l period -d 'Milliseconds from call to call, as a camera or sound card would pace them [default: back to back]' -r
complete -c nnburst -n "__fish_nnburst_using_subcommand trace" -l device -d '`embedded` (the driver in this process), `spawn:NAME` (a driver in a process of its own), `nnapi-reference`, or the name of a service [default: spawn:nnburst-cpu, embedded with --mode inproc; `run` prefers a service that takes all of the model]' -r
complete -c nnburst -n "__fish_nnburst_using_subcommand trace" -l mode -d 'The kind of call that executes' -r -f -a "inproc\t'The plan in this process, without any queue or socket'
sync\t'One call over the control connection'
async\t'A call that returns at once and a callback'
fenced\t'A call that returns a sync fence'
burst\t'A packet through a queue in shared memory'"
complete -c nnburst -n "__fish_nnburst_using_subcommand trace" -l threads -d 'Threads that compute one execution' -r
complete -c nnburst -n "__fish_nnburst_using_subcommand trace" -l hint -d 'A precision hint: the model is computed faster and less exactly. It is taken for one that allows relaxed precision; a service that runs already follows its own hint' -r -f -a "bf16\t'Factors of float convolutions and products are rounded to 8 bits of precision (16-bit numbers)'"
complete -c nnburst -n "__fish_nnburst_using_subcommand trace" -l wait -d 'The strategy by which both ends of a burst wait for each other [default: adaptive, block with --preference low-power]' -r -f -a "spin\t'Poll; the shortest latency, a core each'
adaptive\t'Poll as long as recent waits were short, then sleep'
block\t'Sleep at once'"
complete -c nnburst -n "__fish_nnburst_using_subcommand trace" -l priority -d 'The model\'s priority among all that the device computes for this user' -r -f -a "low\t'After all others'
medium\t'As usual'
high\t'Before all others'"
complete -c nnburst -n "__fish_nnburst_using_subcommand trace" -l preference -d 'The model\'s user\'s execution preference' -r -f -a "low-power\t'Little energy'
fast-single-answer\t'One answer as soon as possible'
sustained-speed\t'A lasting rate, such as a camera\'s frames'"
complete -c nnburst -n "__fish_nnburst_using_subcommand trace" -l deadline -d 'Milliseconds that each execution may take. Those that take longer are counted, and the exit code is 4' -r
complete -c nnburst -n "__fish_nnburst_using_subcommand trace" -l cpus -d 'Processors to run on: one for this process and one for the driver\'s burst thread' -r
complete -c nnburst -n "__fish_nnburst_using_subcommand trace" -l realtime -d 'Ask for real-time scheduling and locked memory; what is refused is said'
complete -c nnburst -n "__fish_nnburst_using_subcommand trace" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c nnburst -n "__fish_nnburst_using_subcommand metrics" -l listen -d 'Answer `GET /metrics` here, such as 127.0.0.1:9464, until stopped; with neither this nor --file the metrics are printed once' -r
complete -c nnburst -n "__fish_nnburst_using_subcommand metrics" -l file -d 'Write this file again and again, whole each time: for the textfile collector of node_exporter, which reads files named *.prom' -r -F
complete -c nnburst -n "__fish_nnburst_using_subcommand metrics" -l interval -d 'Milliseconds from file to file' -r
complete -c nnburst -n "__fish_nnburst_using_subcommand metrics" -l rounds -d 'Ends after so many files [default: when stopped]' -r
complete -c nnburst -n "__fish_nnburst_using_subcommand metrics" -l without-clients -d 'Leave clients, models and bursts out: where they come and go by the hundred, each is a series more in Prometheus'
complete -c nnburst -n "__fish_nnburst_using_subcommand metrics" -s h -l help -d 'Print help'
complete -c nnburst -n "__fish_nnburst_using_subcommand mlts; and not __fish_seen_subcommand_from run list compare report replay worker help" -s h -l help -d 'Print help'
complete -c nnburst -n "__fish_nnburst_using_subcommand mlts; and not __fish_seen_subcommand_from run list compare report replay worker help" -f -a "run" -d 'Run the suite'
complete -c nnburst -n "__fish_nnburst_using_subcommand mlts; and not __fish_seen_subcommand_from run list compare report replay worker help" -f -a "list" -d 'List models, data and crash tests, with ids and estimated seconds'
complete -c nnburst -n "__fish_nnburst_using_subcommand mlts; and not __fish_seen_subcommand_from run list compare report replay worker help" -f -a "compare" -d 'Compare two runs; exits with 1 where the newer one is worse'
complete -c nnburst -n "__fish_nnburst_using_subcommand mlts; and not __fish_seen_subcommand_from run list compare report replay worker help" -f -a "report" -d 'Write the page of one run, or of several beside each other'
complete -c nnburst -n "__fish_nnburst_using_subcommand mlts; and not __fish_seen_subcommand_from run list compare report replay worker help" -f -a "replay" -d 'Run a kept failing case alone'
complete -c nnburst -n "__fish_nnburst_using_subcommand mlts; and not __fish_seen_subcommand_from run list compare report replay worker help" -f -a "worker" -d 'The process that a test runs in; started by the suite'
complete -c nnburst -n "__fish_nnburst_using_subcommand mlts; and not __fish_seen_subcommand_from run list compare report replay worker help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c nnburst -n "__fish_nnburst_using_subcommand mlts; and __fish_seen_subcommand_from run" -l device -d 'A device as for the other commands: `embedded`, `spawn:NAME`, `nnapi-reference`, or a service\'s name; repeatable [default: spawn:nnburst-cpu]' -r
complete -c nnburst -n "__fish_nnburst_using_subcommand mlts; and __fish_seen_subcommand_from run" -l driver-cmd -d 'A program that serves one client on its standard input (descriptor 0)' -r
complete -c nnburst -n "__fish_nnburst_using_subcommand mlts; and __fish_seen_subcommand_from run" -l service-cmd -d 'A program that serves the name of --device in the directory `NNBURST_SERVICE_DIR`' -r
complete -c nnburst -n "__fish_nnburst_using_subcommand mlts; and __fish_seen_subcommand_from run" -l library -d 'A libneuralnetworks.so; --device names one of its devices [default: its first]' -r -F
complete -c nnburst -n "__fish_nnburst_using_subcommand mlts; and __fish_seen_subcommand_from run" -l models -d 'A folder of models with a manifest.json; repeatable [default: built-in networks]' -r -F
complete -c nnburst -n "__fish_nnburst_using_subcommand mlts; and __fish_seen_subcommand_from run" -l budget -d 'The time of the whole run, as 90s or 5m; what doesn\'t fit is left out and said' -r
complete -c nnburst -n "__fish_nnburst_using_subcommand mlts; and __fish_seen_subcommand_from run" -l rest -d 'Rest for so long before each item, as 5s, on top of the budget: machines heat up' -r
complete -c nnburst -n "__fish_nnburst_using_subcommand mlts; and __fish_seen_subcommand_from run" -l soak -d 'Add the endurance test (c22) for this long, as 10m or 2h, on top of the budget' -r
complete -c nnburst -n "__fish_nnburst_using_subcommand mlts; and __fish_seen_subcommand_from run" -l only -d 'Only these kinds of items' -r -f -a "accuracy\t'Goldens and tasks'
latency\t'Latency'
compile\t'Compile times'
support\t'The operations that are taken'
crash\t'Crash tests'"
complete -c nnburst -n "__fish_nnburst_using_subcommand mlts; and __fish_seen_subcommand_from run" -l filter -d 'Only items whose id this regular expression finds' -r
complete -c nnburst -n "__fish_nnburst_using_subcommand mlts; and __fish_seen_subcommand_from run" -l skip -d 'Leave out items whose id this regular expression finds' -r
complete -c nnburst -n "__fish_nnburst_using_subcommand mlts; and __fish_seen_subcommand_from run" -l modes -d 'The kinds of calls [default: burst,sync; with --full all four]' -r -f -a "inproc\t'The plan in this process, without any queue or socket'
sync\t'One call over the control connection'
async\t'A call that returns at once and a callback'
fenced\t'A call that returns a sync fence'
burst\t'A packet through a queue in shared memory'"
complete -c nnburst -n "__fish_nnburst_using_subcommand mlts; and __fish_seen_subcommand_from run" -l reference -d 'The device that latency is compared with; `none` saves the time' -r
complete -c nnburst -n "__fish_nnburst_using_subcommand mlts; and __fish_seen_subcommand_from run" -l accept -d 'The tier that decides [default: exact for the drivers of this program, else task]' -r -f -a "exact\t'Bits of the goldens or of NNAPI\'s reference; floats within rounding'
close\t'A step or so'
task\t'The rules of the tasks'"
complete -c nnburst -n "__fish_nnburst_using_subcommand mlts; and __fish_seen_subcommand_from run" -l seed -d 'The seed of every random choice' -r
complete -c nnburst -n "__fish_nnburst_using_subcommand mlts; and __fish_seen_subcommand_from run" -l keep -d 'Keep failing cases in this folder' -r -F
complete -c nnburst -n "__fish_nnburst_using_subcommand mlts; and __fish_seen_subcommand_from run" -l patience -d 'Seconds without any progress that count as a hang' -r
complete -c nnburst -n "__fish_nnburst_using_subcommand mlts; and __fish_seen_subcommand_from run" -l bisect -d 'Look for the first wrong operation of this model: every value becomes an output' -r
complete -c nnburst -n "__fish_nnburst_using_subcommand mlts; and __fish_seen_subcommand_from run" -l wait -d 'The wait strategy of both ends of bursts [default: the settings\']' -r -f -a "spin\t'Poll; the shortest latency, a core each'
adaptive\t'Poll as long as recent waits were short, then sleep'
block\t'Sleep at once'"
complete -c nnburst -n "__fish_nnburst_using_subcommand mlts; and __fish_seen_subcommand_from run" -l threads -d 'Threads of a driver that is embedded, or spawned by name' -r
complete -c nnburst -n "__fish_nnburst_using_subcommand mlts; and __fish_seen_subcommand_from run" -l cpus -d 'Processors of the calling thread and of the driver\'s, in bursts; one is for both' -r
complete -c nnburst -n "__fish_nnburst_using_subcommand mlts; and __fish_seen_subcommand_from run" -l period -d 'Measure calls at this period too, in milliseconds: as from a camera or sound card [default with --full: 33.3]' -r
complete -c nnburst -n "__fish_nnburst_using_subcommand mlts; and __fish_seen_subcommand_from run" -l clients -d 'Measure the throughput of so many clients at a time [default with --full: 1,2,4]' -r
complete -c nnburst -n "__fish_nnburst_using_subcommand mlts; and __fish_seen_subcommand_from run" -l peers -d 'Other engines\' latencies, as lines of JSON with model, engine, threads, ok, `median_us` and `p99_us`: a column of the page' -r -F
complete -c nnburst -n "__fish_nnburst_using_subcommand mlts; and __fish_seen_subcommand_from run" -l baseline -d 'A previous run; differences go to standard output' -r -F
complete -c nnburst -n "__fish_nnburst_using_subcommand mlts; and __fish_seen_subcommand_from run" -l fail-on-regression -d 'With --baseline: fail where p50 or p99 are so many per cent above it' -r
complete -c nnburst -n "__fish_nnburst_using_subcommand mlts; and __fish_seen_subcommand_from run" -l json -d 'Write the results as JSON' -r -F
complete -c nnburst -n "__fish_nnburst_using_subcommand mlts; and __fish_seen_subcommand_from run" -l html -d 'Write the page' -r -F
complete -c nnburst -n "__fish_nnburst_using_subcommand mlts; and __fish_seen_subcommand_from run" -l csv -d 'Write latencies as CSV' -r -F
complete -c nnburst -n "__fish_nnburst_using_subcommand mlts; and __fish_seen_subcommand_from run" -l quick -d 'A minute: a few models, the most telling crash tests'
complete -c nnburst -n "__fish_nnburst_using_subcommand mlts; and __fish_seen_subcommand_from run" -l full -d 'Most of an hour: all modes, paced, several clients, the largest crash tests'
complete -c nnburst -n "__fish_nnburst_using_subcommand mlts; and __fish_seen_subcommand_from run" -l allow-kill -d 'Tests may kill a service that the suite didn\'t start'
complete -c nnburst -n "__fish_nnburst_using_subcommand mlts; and __fish_seen_subcommand_from run" -l relaxed -d 'Allow floats to be computed with the precision of half floats'
complete -c nnburst -n "__fish_nnburst_using_subcommand mlts; and __fish_seen_subcommand_from run" -l realtime -d 'Ask for real-time scheduling of both ends of bursts, and locked memory'
complete -c nnburst -n "__fish_nnburst_using_subcommand mlts; and __fish_seen_subcommand_from run" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c nnburst -n "__fish_nnburst_using_subcommand mlts; and __fish_seen_subcommand_from list" -l models -d 'A folder of models with a manifest.json; repeatable' -r -F
complete -c nnburst -n "__fish_nnburst_using_subcommand mlts; and __fish_seen_subcommand_from list" -l quick -d 'The tests of the quick budget'
complete -c nnburst -n "__fish_nnburst_using_subcommand mlts; and __fish_seen_subcommand_from list" -l full -d 'The tests of the full budget'
complete -c nnburst -n "__fish_nnburst_using_subcommand mlts; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help'
complete -c nnburst -n "__fish_nnburst_using_subcommand mlts; and __fish_seen_subcommand_from compare" -l limit -d 'Per cent by which p50 or p99 may grow' -r
complete -c nnburst -n "__fish_nnburst_using_subcommand mlts; and __fish_seen_subcommand_from compare" -l html -d 'Write the page of both' -r -F
complete -c nnburst -n "__fish_nnburst_using_subcommand mlts; and __fish_seen_subcommand_from compare" -s h -l help -d 'Print help'
complete -c nnburst -n "__fish_nnburst_using_subcommand mlts; and __fish_seen_subcommand_from report" -l html -d 'The page' -r -F
complete -c nnburst -n "__fish_nnburst_using_subcommand mlts; and __fish_seen_subcommand_from report" -s h -l help -d 'Print help'
complete -c nnburst -n "__fish_nnburst_using_subcommand mlts; and __fish_seen_subcommand_from replay" -s h -l help -d 'Print help'
complete -c nnburst -n "__fish_nnburst_using_subcommand mlts; and __fish_seen_subcommand_from worker" -s h -l help -d 'Print help'
complete -c nnburst -n "__fish_nnburst_using_subcommand mlts; and __fish_seen_subcommand_from help" -f -a "run" -d 'Run the suite'
complete -c nnburst -n "__fish_nnburst_using_subcommand mlts; and __fish_seen_subcommand_from help" -f -a "list" -d 'List models, data and crash tests, with ids and estimated seconds'
complete -c nnburst -n "__fish_nnburst_using_subcommand mlts; and __fish_seen_subcommand_from help" -f -a "compare" -d 'Compare two runs; exits with 1 where the newer one is worse'
complete -c nnburst -n "__fish_nnburst_using_subcommand mlts; and __fish_seen_subcommand_from help" -f -a "report" -d 'Write the page of one run, or of several beside each other'
complete -c nnburst -n "__fish_nnburst_using_subcommand mlts; and __fish_seen_subcommand_from help" -f -a "replay" -d 'Run a kept failing case alone'
complete -c nnburst -n "__fish_nnburst_using_subcommand mlts; and __fish_seen_subcommand_from help" -f -a "worker" -d 'The process that a test runs in; started by the suite'
complete -c nnburst -n "__fish_nnburst_using_subcommand mlts; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c nnburst -n "__fish_nnburst_using_subcommand help; and not __fish_seen_subcommand_from demo run bench devices check doctor dot serve vts top dump trace metrics mlts help" -f -a "demo" -d 'Show what a burst is worth: a driver in a process of its own, a built-in network, a table of latencies'
complete -c nnburst -n "__fish_nnburst_using_subcommand help; and not __fish_seen_subcommand_from demo run bench devices check doctor dot serve vts top dump trace metrics mlts help" -f -a "run" -d 'Run a model on raw tensors, or classify a photo'
complete -c nnburst -n "__fish_nnburst_using_subcommand help; and not __fish_seen_subcommand_from demo run bench devices check doctor dot serve vts top dump trace metrics mlts help" -f -a "bench" -d 'Measure the latency of models'
complete -c nnburst -n "__fish_nnburst_using_subcommand help; and not __fish_seen_subcommand_from demo run bench devices check doctor dot serve vts top dump trace metrics mlts help" -f -a "devices" -d 'List the devices and what they say of themselves'
complete -c nnburst -n "__fish_nnburst_using_subcommand help; and not __fish_seen_subcommand_from demo run bench devices check doctor dot serve vts top dump trace metrics mlts help" -f -a "check" -d 'Say for each operation of a model whether a device takes it, and why not'
complete -c nnburst -n "__fish_nnburst_using_subcommand help; and not __fish_seen_subcommand_from demo run bench devices check doctor dot serve vts top dump trace metrics mlts help" -f -a "doctor" -d 'Say whether this machine lets bursts be quick, what to do where not, and what is set'
complete -c nnburst -n "__fish_nnburst_using_subcommand help; and not __fish_seen_subcommand_from demo run bench devices check doctor dot serve vts top dump trace metrics mlts help" -f -a "dot" -d 'Print a model as a graph for Graphviz'
complete -c nnburst -n "__fish_nnburst_using_subcommand help; and not __fish_seen_subcommand_from demo run bench devices check doctor dot serve vts top dump trace metrics mlts help" -f -a "serve" -d 'Serve a driver to other processes until stopped'
complete -c nnburst -n "__fish_nnburst_using_subcommand help; and not __fish_seen_subcommand_from demo run bench devices check doctor dot serve vts top dump trace metrics mlts help" -f -a "vts" -d 'Run a folder of conformance cases'
complete -c nnburst -n "__fish_nnburst_using_subcommand help; and not __fish_seen_subcommand_from demo run bench devices check doctor dot serve vts top dump trace metrics mlts help" -f -a "top" -d 'Watch the services that run, their clients, models and bursts: a table that renews itself'
complete -c nnburst -n "__fish_nnburst_using_subcommand help; and not __fish_seen_subcommand_from demo run bench devices check doctor dot serve vts top dump trace metrics mlts help" -f -a "dump" -d 'Print the clients, models and bursts of the services that run, once'
complete -c nnburst -n "__fish_nnburst_using_subcommand help; and not __fish_seen_subcommand_from demo run bench devices check doctor dot serve vts top dump trace metrics mlts help" -f -a "trace" -d 'Write the spans of a model\'s requests, or of any program\'s, in all processes that take part, to one file for Perfetto'
complete -c nnburst -n "__fish_nnburst_using_subcommand help; and not __fish_seen_subcommand_from demo run bench devices check doctor dot serve vts top dump trace metrics mlts help" -f -a "metrics" -d 'Tell Prometheus of the services that run: as a server of its own, or in a file'
complete -c nnburst -n "__fish_nnburst_using_subcommand help; and not __fish_seen_subcommand_from demo run bench devices check doctor dot serve vts top dump trace metrics mlts help" -f -a "mlts" -d 'Run the acceptance suite on a driver: accuracy, latency, support, crash tests, report'
complete -c nnburst -n "__fish_nnburst_using_subcommand help; and not __fish_seen_subcommand_from demo run bench devices check doctor dot serve vts top dump trace metrics mlts help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c nnburst -n "__fish_nnburst_using_subcommand help; and __fish_seen_subcommand_from mlts" -f -a "run" -d 'Run the suite'
complete -c nnburst -n "__fish_nnburst_using_subcommand help; and __fish_seen_subcommand_from mlts" -f -a "list" -d 'List models, data and crash tests, with ids and estimated seconds'
complete -c nnburst -n "__fish_nnburst_using_subcommand help; and __fish_seen_subcommand_from mlts" -f -a "compare" -d 'Compare two runs; exits with 1 where the newer one is worse'
complete -c nnburst -n "__fish_nnburst_using_subcommand help; and __fish_seen_subcommand_from mlts" -f -a "report" -d 'Write the page of one run, or of several beside each other'
complete -c nnburst -n "__fish_nnburst_using_subcommand help; and __fish_seen_subcommand_from mlts" -f -a "replay" -d 'Run a kept failing case alone'
complete -c nnburst -n "__fish_nnburst_using_subcommand help; and __fish_seen_subcommand_from mlts" -f -a "worker" -d 'The process that a test runs in; started by the suite'
