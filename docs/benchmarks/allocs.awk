# Allocations per operation, which the same code makes on every machine.
#
#   awk -v write=1 -f allocs.awk RUN            prints the baseline: the most of each benchmark's repetitions
#   awk -f allocs.awk BASELINE RUN              fails if the least of a benchmark's repetitions is above it, or if a
#                                               benchmark has no line there: make bench-baseline writes them
FNR == 1 { file++ }
!write && file == 1 { allowed[$1] = $2; next }
$1 == "pkg:" { package = $2; sub(/.*\//, "", package); next }
/^Benchmark/ {
    name = package "." substr($1, 10)
    sub(/-[0-9]+$/, "", name)
    for (i = 3; i < NF; i++)
        if ($(i + 1) == "allocs/op") {
            if (!(name in least) || $i < least[name]) least[name] = $i
            if (!(name in most) || $i > most[name]) most[name] = $i
        }
}
END {
    for (name in least) {
        count++
        if (write) print name, most[name]
        else if (!(name in allowed)) complaint = complaint name ": not in the baseline\n"
        else if (least[name] + 0 > allowed[name] + 0)
            complaint = complaint name ": " least[name] " allocations, and " allowed[name] " in the baseline\n"
        else if (most[name] + 0 < allowed[name] + 0) fewer = fewer name ": " most[name] ", and " allowed[name] " in the baseline\n"
    }
    if (write) exit
    if (count == 0) { print "no benchmark has run" > "/dev/stderr"; exit 1 }
    if (fewer) printf "fewer allocations, which make bench-baseline would keep:\n%s", fewer
    if (complaint) { printf "more allocations than the baseline, or not in it:\n%s", complaint > "/dev/stderr"; exit 1 }
    printf "%d benchmarks allocate no more often than the baseline\n", count
}
