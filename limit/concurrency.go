package limit

// concurrency counts what is held at one time. Holds give back what they took when they end, whatever they end with, and
// they are the caller's: to this package that is what lifetime does. So a denial's wait is Never; a caller who knows
// when the next hold expires knows better.
type concurrency struct{ lifetime }
