package io.seqd.client;

/** A process that prints IDs until its stdin ends. The test stops and continues it. */
final class Frozen {
    private Frozen() {}

    public static void main(String[] args) throws Exception {
        IdGenerator generator = new IdGenerator(TestCluster.client(), GeneratorOptions.ofOwner(args[0]));
        while (System.in.available() == 0) {
            try {
                for (long id : generator.ids(100)) {
                    System.out.println(id);
                }
                System.out.flush();
            } catch (SeqdException refused) {
                System.out.println(refused.code());
            }
            Thread.sleep(1);
        }
        generator.close();
        System.out.println("leases " + generator.status().leases());
    }
}
