// A Couchbase for the tests that is not CouchbaseMock: gocaves, with all documents in memory.
//
//	gocaves USER PASSWORD
//
// It has one node and the bucket "default", in that the collection mta.pages, and prints where it
// listens. It ends when its standard input does.
package main

import (
	"fmt"
	"io"
	"log"
	"os"
	"runtime"

	"github.com/couchbaselabs/gocaves/mock"
	"github.com/couchbaselabs/gocaves/mock/mockauth"
	"github.com/couchbaselabs/gocaves/mock/mockimpl"
)

func main() {
	// With more than one thread it loses the first packet of a connection now and then, as it reads
	// packets before it has noted whose they are.
	runtime.GOMAXPROCS(1)
	log.SetOutput(io.Discard) // it logs the bytes of every page
	cluster, err := mockimpl.NewCluster(mock.NewClusterOptions{NumVbuckets: 64})
	must(err)
	bucket, err := cluster.AddBucket(mock.NewBucketOptions{
		Name: "default",
		Type: mock.BucketTypeCouchbase,
	})
	must(err)
	_, err = bucket.CollectionManifest().AddScope("mta")
	must(err)
	_, err = bucket.CollectionManifest().AddCollection("mta", "pages", 0)
	must(err)
	must(cluster.Users().UpsertUser(mockauth.UpsertUserOptions{
		Username: os.Args[1],
		Password: os.Args[2],
		Roles:    []string{"admin"},
	}))
	fmt.Println(cluster.ConnectionString())
	_, _ = io.Copy(io.Discard, os.Stdin)
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
