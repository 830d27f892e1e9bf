package io.seqd.example;

import java.util.ArrayList;
import java.util.List;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.boot.CommandLineRunner;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.context.annotation.Bean;

/**
 * Inserts rows whose IDs are assigned by MyBatis-Plus. It prints {@code ready}, waits for a line on stdin so that
 * several processes begin at once, inserts, and prints the number of rows.
 */
@SpringBootApplication
public class Example {
    private static final int BATCH = 500;

    public static void main(String[] args) {
        SpringApplication.run(Example.class, args).close();
    }

    @Bean
    CommandLineRunner insert(CustomerMapper customers, @Value("${rows}") int rows) {
        return arguments -> {
            System.out.println("ready");
            System.in.read();
            for (int made = 0; made < rows; made += BATCH) {
                List<Customer> batch = new ArrayList<>();
                for (int row = made; row < Math.min(rows, made + BATCH); row++) {
                    Customer customer = new Customer();
                    customer.setName("customer " + row);
                    batch.add(customer);
                }
                customers.insert(batch, BATCH);
            }
            System.out.println("inserted " + rows);
        };
    }
}
