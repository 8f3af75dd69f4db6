// Package data has what gocaves makes of its JSON files before it is built, and does not release:
// the texts of errors. Clients need none of them.
package data

// Asset is the content of a file by its name.
func Asset(string) ([]byte, error) {
	return []byte(`{"version": 1, "revision": 1, "errors": {}}`), nil
}
