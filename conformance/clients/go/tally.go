package main

import (
	"fmt"
	"os"
	"sync"
)

// checks counts those of one kind; several goroutines may use it.
type checks struct {
	kind           string
	mutex          sync.Mutex
	passed, failed int
}

// that counts a check, and says on stderr what failed.
func (c *checks) that(holds bool, format string, values ...any) bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if holds {
		c.passed++
		return true
	}
	c.failed++
	if c.failed <= shownMax {
		fmt.Fprintf(os.Stderr, "%s: %s\n", c.kind, fmt.Sprintf(format, values...))
	}
	return false
}

// runKinds runs every kind of request, one after the other.
func runKinds(t *target) bool {
	good := true
	for _, kind := range kinds {
		c := &checks{kind: kind.name}
		func() {
			defer func() {
				if cause := recover(); cause != nil {
					c.that(false, "panic: %v", cause)
				}
			}()
			kind.run(t, c)
		}()
		if c.passed+c.failed > 0 {
			fmt.Printf("kind %s %d %d\n", c.kind, c.passed, c.failed)
		}
		good = good && c.failed == 0
	}
	fmt.Println("done")
	return good
}

// Failures of one kind that are described.
const shownMax = 5
