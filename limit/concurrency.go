package limit

// concurrency counts the units that are held at one time. A hold gives back its units when it ends, however it ends. The
// caller keeps the holds, so this package counts exactly as lifetime does. A denial's wait is therefore Never; the caller
// can give a better one if it knows when the next hold expires.
type concurrency struct{ lifetime }
