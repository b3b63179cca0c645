// Package loglimit bounds the log lines that others can cause, so that no flood of them fills a disk: at most so many
// lines about each subject (an address, a code) in a time, and then the number of lines that were left out.
//
// It reads no clock and writes no log.
package loglimit
