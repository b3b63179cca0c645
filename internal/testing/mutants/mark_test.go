package mutants

// mark is what the source says beside a guard: //mutant:name, and how many lines the guard has if they are more than
// one.
type mark struct {
	name        string
	from, count int // lines of the source without marks, from 0
}
