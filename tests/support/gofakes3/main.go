// An S3 for the tests that is not moto's: gofakes3, with all objects in memory.
//
//	gofakes3 PORT
package main

import (
	"log"
	"net/http"
	"os"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

func main() {
	server := gofakes3.New(s3mem.New()).Server()
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Args[1], server))
}
